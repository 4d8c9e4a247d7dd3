# Everything runs inside .venv, which `make setup` creates; PYTHON chooses the interpreter it is made from.

PYTHON ?= python3
TORCH := torch==2.13.0
BIN := .venv/bin
INSTALLED := .venv/installed
PIP := $(BIN)/python -m pip --disable-pip-version-check -q

.PHONY: help setup demo play screenshots test nightly docs dist lint bench format clean
.DELETE_ON_ERROR:

help:
	@echo "make setup    create .venv and install the pinned versions"
	@echo "make demo     train eight small models and write a page about them: a few minutes"
	@echo "make play     the playground in the browser"
	@echo "make test     set up, then run all tests and the examples in docstrings"
	@echo "make nightly  the long tests (kills, fuzz, numerics, load), counted in results/trust.json"
	@echo "make bench    speed and memory, into results/bench/"
	@echo "make docs     the documentation, into site/; a warning is an error"
	@echo "make dist     wheel and source archive into dist/, checked and tried in an empty environment"
	@echo "make lint     ruff, mypy and import-linter"
	@echo "make format   let ruff rewrite what it can"
	@echo "make clean    remove .venv and every cache"

setup: $(INSTALLED)

# torch comes first and alone: what follows accepts the build that is there instead of choosing another one.
$(INSTALLED): requirements.txt pyproject.toml Makefile
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and \
		f"setpred needs Python 3.11 or later, $(PYTHON) is {sys.version.split()[0]}: make PYTHON=python3.11")'
	@test -x $(BIN)/python || { echo "creating .venv"; $(PYTHON) -m venv .venv; }
	@echo "installing $(TORCH) (large, once)"
	@$(PIP) install "$(TORCH)"
	@echo "installing $$(grep -c == requirements.txt) pinned packages"
	@$(PIP) install -r requirements.txt
	@$(PIP) install --no-deps --no-build-isolation -e .
	@touch $@
	@echo "ready: $(BIN)/python"

demo: setup
	@echo "Eight small trainings, then a table and a page of figures: a few minutes on two cores. Ctrl+C stops; finished runs are kept."
	$(BIN)/setpred demo

play: setup
	@echo "Starting the playground at http://127.0.0.1:8123: some seconds, then your browser opens. Ctrl+C stops."
	$(BIN)/setpred play

# The pictures of the playground in the documentation.
screenshots: setup
	SETPRED_SCREENSHOTS=docs/images $(BIN)/python -m pytest tests/play

bench: setup
	$(BIN)/setpred bench --json results/bench/bench.json --figure results/bench/bench.png

# One thread a worker: two workers with two threads each would wait for one another.
test: setup
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n 2

# One test at a time: some measure, some fill both cores. TESTS=tests/PATH runs a part.
nightly: setup
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -m nightly --trust=results/trust.json $(TESTS)

# NO_MKDOCS_2_WARNING: the theme otherwise advertises its successor in every build.
docs: setup
	NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --strict
	@echo "open site/index.html, or $(BIN)/python -m mkdocs serve"

# The wheel is built from the source archive, which shows that the archive is complete. SHARE=1 borrows the packages of .venv
# for the trial instead of installing torch once more.
dist: setup
	rm -rf dist
	$(BIN)/python -m build --no-isolation
	$(BIN)/python -m twine check --strict dist/*
	.ci/smoke dist/*.whl "$(TORCH)" $(if $(SHARE),$(abspath $(BIN)))

lint: setup
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-logo

format: setup
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

clean:
	rm -rf .venv site .pytest_cache .mypy_cache .ruff_cache .hypothesis .grimp_cache .import_linter_cache dist build
	find src tests examples docs -name __pycache__ -type d -prune -exec rm -rf {} +
