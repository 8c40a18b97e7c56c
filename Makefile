# Every target makes its own .venv from nothing but python3 and make.
.DEFAULT_GOAL := help
.PHONY: help demo desk docs fast test coverage check format bench clean

PYTHON ?= python3
BIN := .venv/bin
# One thread a worker: two workers that both start threads on two cores wait for each other.
# A worker takes whole files, the longest first: tests/conftest.py.
# Tests of servers, browsers and killed processes wait most of the time: one worker more than cores.
# Compiled modules are kept, as the processes that tests start would compile them each time.
PYTEST := OMP_NUM_THREADS=1 PYTHONDONTWRITEBYTECODE= $(BIN)/python -m pytest
WORKERS := $(shell expr $$(getconf _NPROCESSORS_ONLN) + 1)
SLOW := slow or simulation or processes or training or browser or spark or postgres
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt

help:  ## show this help
	@echo "expertload: operate classifiers at high accuracy and low expert load"
	@echo
	@grep -hE '^[a-z]+:.*##' $(MAKEFILE_LIST) | sort | sed -E 's/^([a-z]+):.*## (.*)/  make \1	\2/' | expand -t 16

.venv/bin/python:
	@$(PYTHON) -m venv .venv

# The extras that targets need; the development tools need all of them.
demo_extras := lab,report
desk_extras := desk
docs_extras := docs
dev_extras := dev

.venv/.%: .venv/bin/python pyproject.toml constraints.txt
	@echo "Installing expertload[$($*_extras)] (a few minutes the first time) ..."
	@$(PIP) -e '.[$($*_extras)]'
	@touch $@ $(if $(filter dev,$*),.venv/.demo .venv/.desk .venv/.docs)

demo: .venv/.demo  ## lower the expert load step by step on digits, certify a policy, write a report
	@$(BIN)/python examples/demo.py

desk: .venv/.desk  ## try the desk in a browser: real images, a certified policy, you as the expert
	@$(BIN)/python -m expertload desk demo

docs: .venv/.docs  ## build the site: docs/_build/html/index.html
	@OMP_NUM_THREADS=1 $(BIN)/python -m sphinx -b html -W --keep-going -n -q docs docs/_build/html
	@echo "The site is in docs/_build/html; open docs/_build/html/index.html"

fast: .venv/.dev  ## run the tests for every commit: nothing that simulates or starts a program
	@HYPOTHESIS_PROFILE=fast $(PYTEST) --numprocesses auto -m 'not ($(SLOW))'

test: .venv/.dev  ## run all tests
	@$(PYTEST) --numprocesses $(WORKERS)

coverage: .venv/.dev  ## run all tests, and say which lines and branches none of them reaches
	@rm -rf .coverage && mkdir .coverage
	@COVERAGE_FILE='$(CURDIR)/.coverage/data' $(PYTEST) --numprocesses $(WORKERS) --cov --cov-report=term

check: .venv/.dev  ## formatting, lint, spelling and strict types
	@$(BIN)/ruff format --check .
	@$(BIN)/ruff check .
	@$(BIN)/codespell *.md docs src tools examples benchmarks
	@$(BIN)/mypy

format: .venv/.dev  ## format the code and mend what lint can mend
	@$(BIN)/ruff format .
	@$(BIN)/ruff check --fix .

bench: .venv/.dev  ## speed and memory, as ratios against named rivals
	@$(BIN)/python -m benchmarks

audit: .venv/.dev  ## list the installed packages (sbom.json), and look for known vulnerabilities; needs a network
	@$(BIN)/python tools/sbom.py sbom.json
	@$(BIN)/python -m venv .venv/audit && .venv/audit/bin/pip install --quiet pip-audit
	@.venv/audit/bin/pip-audit --requirement constraints.txt --no-deps --disable-pip

clean:  ## remove the environment and all caches
	@rm -rf .venv .pytest_cache .mypy_cache .ruff_cache .hypothesis .coverage demo-output
	@find . -name __pycache__ -type d -prune -exec rm -rf {} +
