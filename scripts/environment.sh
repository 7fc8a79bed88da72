# shellcheck shell=bash
# Source this in bash, after `make setup`:  source scripts/environment.sh
# It gives a shell in which python, siha, rclpy and siha_ros.msg are those of this repository. The working tree's Python code comes
# first, so that an edit needs no rebuild. A sourced ROS 2 stays as it is; without one, the wheels in .venv take its place.

SIHA_ROOT="$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)"
if [ ! -f "$SIHA_ROOT/install/local_setup.bash" ]; then
    echo "siha_ros is not built: run make setup" >&2
    return 1
fi
source "$SIHA_ROOT/.venv/bin/activate"
if grep -q '^ros=wheels$' "$SIHA_ROOT/.venv/siha_setup"; then
    export AMENT_PREFIX_PATH="$VIRTUAL_ENV${AMENT_PREFIX_PATH:+:$AMENT_PREFIX_PATH}"
    for _siha_libraries in "$VIRTUAL_ENV/lib" "$VIRTUAL_ENV"/lib/python3.*/site-packages/ros_*.libs; do
        export LD_LIBRARY_PATH="$_siha_libraries${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}"
    done
    unset _siha_libraries
    export _ROS_WHEELS_BOOTSTRAP_COMPLETE=1  # the library path is set: Python need not start twice
fi
source "$SIHA_ROOT/install/local_setup.bash"
export PYTHONPATH="$SIHA_ROOT${PYTHONPATH:+:$PYTHONPATH}"
