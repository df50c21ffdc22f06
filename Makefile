# Everything works from a clean clone: each target first makes .venv, once, with what it needs.
#   make demo    check a shipped Hopper kernel
#   make test    the tests             make check   tests and linters: what CI runs
#   make lint    the linters           make bench   seconds and memory of the checker
#   make clean   remove .venv and caches

SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := demo

# The first Python of at least 3.11; give another with `make PYTHON=...`.
PYTHON ?= $(shell for p in python3 python3.14 python3.13 python3.12 python3.11 python; do \
	$$p -c 'import sys; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1 && echo $$p && break; \
	done)
VENV ?= .venv
BIN := $(VENV)/bin
INSTALLED := $(VENV)/.installed

KERNEL := exogpu/kernels/gemm_sm90.py
SIZES := L=1,M=512,N=512,cluster_K=512
PYTEST_FLAGS ?=

.PHONY: demo test lint check bench clean install

demo: $(INSTALLED)
	$(BIN)/exogpu check $(KERNEL) --at $(SIZES)

test: $(INSTALLED)
	$(BIN)/python -m pytest $(PYTEST_FLAGS)

lint: $(INSTALLED)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

check: test lint

bench: $(INSTALLED)
	$(BIN)/python benchmarks/machine.py

install: $(INSTALLED)

# Editable, so that edits take effect at once; again only when pyproject.toml changes.
$(INSTALLED): pyproject.toml
	@test -n "$(PYTHON)" || { echo "exogpu needs Python 3.11 or newer: install it, or run make PYTHON=/path/to/python3" >&2; exit 1; }
	@test -x $(BIN)/python || { echo "making $(VENV) with $(PYTHON)"; $(PYTHON) -m venv $(VENV); } || \
		{ rm -rf $(VENV); echo "$(PYTHON) -m venv failed: on Debian and Ubuntu, apt install python3-venv" >&2; exit 1; }
	@echo "installing exogpu and its dependencies into $(VENV)"
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[dev]'
	@touch $@

clean:
	rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache build *.egg-info
	find exogpu symbolic codegen tests benchmarks examples -name __pycache__ -type d -prune -exec rm -rf {} +
