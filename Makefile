# make demo     sets up at the first time, then shows a robot team that loses two robots. Variables:
#               HEADLESS=1 DURATION=30 SEED=1 LOSSES=1 REPORT=report.json    BODY=folder LIMB=left_arm TRIAL=05
# make test     lint, types and tests
# make soak     the long runs of docs/situations.md
# make bench    speed of training and of one window
# make setup    the set-up alone; PYTHON=python3.12 chooses the Python, TORCH="torch==2.13.0" another build of torch
# make clean    removes all that the set-up made

RUN = scripts/run.sh

.PHONY: setup demo test soak bench lint clean

setup:
	@scripts/setup.sh

demo: setup
	@$(RUN) python -m siha_ros.demo

lint: setup
	@$(RUN) ruff check .
	@$(RUN) mypy

test: lint
	@$(RUN) python -m pytest -n 2

soak: setup
	@$(RUN) python -m pytest -m soak

bench: setup
	@$(RUN) siha bench

clean:
	rm -rf .venv build install log siha_ros.egg-info
