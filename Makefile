# `make demo` and `make test` need Python 3.11 or later with pip, and nothing else: each prepares its own environment.
#
#   make demo     Surefoot on a small model, drafts off and on, side by side
#   make test     what CI runs: format, lint, types, the map, generated docs, changelog, tests
#   make bench    the benchmarks, records in benchmarks/records/
#   make format   ruff's formatter and its safe fixes        make docs    writes docs/reference/
#   make build    wheel and source archive in dist/          make clean   removes everything that was generated
#
# Variables: PYTHON=python3.12   TORCH=torch (the default build, CUDA on Linux; cpu otherwise)
#            JOBS=4 (test processes)   PYTEST_ARGS="-k law --slow"   DEMO_ARGS="--help"

PYTHON ?= python3
TORCH ?= cpu
JOBS ?= 2
PYTEST_ARGS ?=
DEMO_ARGS ?=

DEMO_ENV ?= .venv/demo
DEMO_EXTRAS ?= openvino
DEMO_TORCH ?=
DEV_ENV ?= .venv/dev
DEV_EXTRAS ?= dev,bench,hf,openvino,llamacpp

BIN := $(if $(filter Windows_NT,$(OS)),Scripts,bin)
DEV := $(DEV_ENV)/$(BIN)

.PHONY: demo demo-env test dev-env bench format docs build clean
.DEFAULT_GOAL := test

demo: demo-env
	@$(DEMO_ENV)/$(BIN)/surefoot demo $(DEMO_ARGS)

demo-env:
	@$(PYTHON) tools/environment.py $(DEMO_ENV) "$(DEMO_EXTRAS)" $(DEMO_TORCH)

dev-env:
	@$(PYTHON) tools/environment.py $(DEV_ENV) "$(DEV_EXTRAS)" $(TORCH)

# The tests run JOBS processes side by side, so each takes one thread.
test: dev-env
	$(DEV)/ruff format --check .
	$(DEV)/ruff check .
	$(DEV)/mypy
	$(DEV)/mypy tools
	$(DEV)/lint-imports --no-logo --no-cache
	$(DEV)/python tools/docs.py --check
	$(DEV)/python tools/check_changelog.py
	OMP_NUM_THREADS=1 $(DEV)/pytest -n $(JOBS) --dist loadfile $(PYTEST_ARGS)

bench: dev-env
	set -e; for file in $(filter-out %/common.py %/written.py,$(wildcard benchmarks/*.py)); do echo "== $$file"; $(DEV)/python $$file; done

format: dev-env
	$(DEV)/ruff check --fix .
	$(DEV)/ruff format .

docs: dev-env
	$(DEV)/python tools/docs.py

build: dev-env
	rm -rf dist
	$(DEV)/hatchling build

clean:
	rm -rf .venv build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
