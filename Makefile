# Needs GNU make, Python 3.11 or later, pip and git; everything else comes into .venv.
.DEFAULT_GOAL := help
SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DELETE_ON_ERROR:

PYTHON ?= $(firstword $(shell command -v python3.11 python3 2>/dev/null))
VENV := .venv
PADDLE_VENV := .venv-paddle
BIN := $(VENV)/bin
# The versions of constraints.txt are installed, so that two days give the same environment.
PIP_INSTALL := -m pip install --quiet --disable-pip-version-check --constraint constraints.txt
SUDO := $(if $(filter 0,$(shell id -u)),,sudo)
ARGS ?=

help: ## Show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-12s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

venv: $(VENV)/.installed ## Make .venv with everything that development, tests and the demo need

$(VENV)/.installed: pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Python 3.11 or later is needed: make PYTHON=...")'
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@echo "installing into $(VENV) ..."
	@$(BIN)/python $(PIP_INSTALL) --editable '.[ocr,embedded,demo,dev]'
	@touch $@

$(PADDLE_VENV)/.installed: pyproject.toml constraints.txt
	@test -x $(PADDLE_VENV)/bin/python || $(PYTHON) -m venv $(PADDLE_VENV)
	@echo "installing into $(PADDLE_VENV) ..."
	@$(PADDLE_VENV)/bin/python $(PIP_INSTALL) --editable '.[paddle,paddle-onnx,paddle-convert,paddle-models,embedded,demo,dev]'
	@touch $@

check: venv ## Run every static check
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/python -m tools.lua_lint src/detectsched/queueing/lua
	$(BIN)/python -m tools.settings_doc --check

test: test-main test-paddle ## Run all tests but chaos; `make test-main ARGS="-k fair -x"` passes arguments to pytest

# Two processes, each with a Valkey and a PostgreSQL of its own: half of the time is waiting for real programs.
test-main: venv ## Run the tests that need neither the whole machine nor PaddleOCR
	$(BIN)/pytest --ignore=tests/paddle --ignore=tests/chaos -n 2 --dist worksteal $(ARGS)

test-chaos: venv ## Run the tests that break a whole system under load, one at a time
	$(BIN)/pytest tests/chaos $(ARGS)

soak-images: venv ## Read 500 mixed images (SOAK_IMAGES=N) with crashes among them, and watch memory (minutes)
	$(BIN)/pytest -m soak tests/soak $(ARGS)

# rapidocr and paddle bring OpenCV builds that overwrite each other (docs/decisions/0006-ocr-engines-apart.md).
test-paddle: $(PADDLE_VENV)/.installed ## Run the tests of the PaddleOCR engine, in an environment of their own
	$(PADDLE_VENV)/bin/pytest tests/paddle $(ARGS)

test-compat: venv ## Run the tests on Debian's Redis 7 and PostgreSQL 15 (installs them with apt-get)
	@test -x /usr/bin/redis-server -a -x /usr/lib/postgresql/15/bin/postgres \
		|| { $(SUDO) apt-get update -qq && $(SUDO) apt-get install -qq --yes redis-server postgresql-15; }
	DETECTSCHED_TEST_REDIS=debian7 DETECTSCHED_TEST_POSTGRES=debian15 $(BIN)/pytest --ignore=tests/paddle $(ARGS)

soak: venv ## Run what is too long for every day: every failpoint, long state machines, 20,000 tasks under every fault
	MACHINE_EXAMPLES=2000 $(BIN)/pytest -q --timeout=0 tests/queueing/test_machine.py tests/queueing/test_ledger_machine.py
	$(BIN)/python -m chaos.sweep $(ARGS)
	$(BIN)/python -m chaos --tasks 20000 --rounds 4 $(ARGS)
	$(BIN)/python -m chaos.objects $(ARGS)
	$(BIN)/detectsched bench rebuild --tasks 1000000

demo: venv ## See the whole system work; ARGS=--exit ends it afterwards
	$(BIN)/detectsched demo $(ARGS)

docs: venv ## Write docs/settings.md from the settings
	$(BIN)/python -m tools.settings_doc

lock: venv ## Write constraints.txt from the newest versions that pyproject.toml allows
	$(BIN)/python -m tools.lock

clean: ## Remove environments and caches (data directories stay)
	rm -rf $(VENV) $(PADDLE_VENV) build dist .mypy_cache .ruff_cache .pytest_cache .import_linter_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

.PHONY: help venv check soak-images test test-main test-chaos test-paddle test-compat soak demo docs lock clean
