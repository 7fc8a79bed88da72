#!/usr/bin/env bash
# Runs a command in the environment that scripts/setup.sh made: scripts/run.sh python -m siha_ros.demo
set -euo pipefail
set +u; source "$(dirname "$0")/environment.sh"; set -u
exec "$@"
