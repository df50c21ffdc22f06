# Everything works from a clean clone: each target first makes .venv, once, with what it needs.
#   make demo    prove a shipped Hopper kernel, and write its report
#   make docs    the site of all pages, in build/site
#   make test    the quick tests       make check   all tests and linters: what CI runs
#   make test-all   all tests but a few          make test-long   these, tens of seconds each
#   make lint    the linters           make bench   seconds and memory of the checker
#   make proofs  prove the shipped kernels again
#   make gpu-test, gpu-bench   right and fast on a GPU      make gpu-fuzz   random programs on one
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

PYTEST_FLAGS ?=
# Each worker has half of the tests, in order: what the tests of a file share is made once.
PYTEST := $(BIN)/python -m pytest -n auto --dist worksteal
# One that has torch.
GPU_PYTHON ?= python3

.PHONY: demo test test-all test-long proofs lint check docs bench gpu-emit gpu-test gpu-bench gpu-fuzz-emit gpu-fuzz clean install

demo: $(INSTALLED)
	$(BIN)/exogpu demo -o build/demo

test: $(INSTALLED)
	$(PYTEST) -m "not slow and not ci" $(PYTEST_FLAGS)

test-all: $(INSTALLED)
	$(PYTEST) -m "not long" $(PYTEST_FLAGS)

test-long: $(INSTALLED)
	$(PYTEST) -m long $(PYTEST_FLAGS)

lint: $(INSTALLED)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

check: test-all lint

docs: $(INSTALLED)
	@$(BIN)/python -c "import material" 2>/dev/null || \
		$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[docs]'
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict

bench: $(INSTALLED)
	$(BIN)/python benchmarks/machine.py
	$(BIN)/python benchmarks/prover.py

# Checks and compiles without a GPU; build/gpu then goes to any machine with one and torch, where
# the command of gpu-test runs as it is.
gpu-emit: $(INSTALLED)
	$(BIN)/exogpu compile exogpu.kernels -o build/gpu --cubin
	$(BIN)/exogpu compile benchmarks/extra_fences.py -o build/gpu/fences --cubin
	$(BIN)/exogpu compile benchmarks/tiles.py -o build/gpu/tiles --cubin
	$(BIN)/exogpu compile benchmarks/derived.py -o build/gpu/derived --cubin
	$(BIN)/exogpu compile benchmarks/fragments.py -o build/gpu/fragments --cubin
	$(BIN)/exogpu compile benchmarks/rows.py -o build/gpu/rows --cubin
	$(BIN)/python benchmarks/host_functions.py build/gpu/host

gpu-test: gpu-emit
	$(GPU_PYTHON) benchmarks/host_functions.py build/gpu/host --run
	$(GPU_PYTHON) benchmarks/gpu_check.py build/gpu build/gpu/fences build/gpu/tiles \
		build/gpu/derived build/gpu/fragments --memcheck --write docs/gpu-results.md

# Beside cuBLAS, by the paper's method: docs/gpu-bench.json, .csv and .svg.
gpu-bench: gpu-emit
	$(GPU_PYTHON) benchmarks/gpu.py build/gpu -o build/gpu-bench
	$(GPU_PYTHON) benchmarks/gpu.py --write build/gpu-bench
	$(GPU_PYTHON) benchmarks/gpu_rows.py build/gpu/rows -o build/gpu-rows.json
	$(GPU_PYTHON) benchmarks/gpu_rows.py --write build/gpu-rows.json

# Random programs.  The first part needs no GPU and goes on where it stopped; the second needs the
# driver and numpy alone, so that build/gpu-fuzz and build/gpu-fuzz-all can go to another machine.
# Twice as many are emitted with arrivals of all threads as compute-sanitizer looks at.  What goes
# wrong in a part is noted, and the last one, which writes the page, fails.
PROGRAMS ?= 1000
FUZZ := campaigns.gpu_fuzz

gpu-fuzz-emit: $(INSTALLED)
	-$(BIN)/python -m $(FUZZ) emit --programs $(PROGRAMS) --resume
	-$(BIN)/python -m $(FUZZ) emit --programs 100 --arrive-all -o build/gpu-fuzz-all --resume

gpu-fuzz: gpu-fuzz-emit
	-$(GPU_PYTHON) -m $(FUZZ) run
	-$(GPU_PYTHON) -m $(FUZZ) sanitize --kernels 50 -o build/gpu-fuzz-all
	$(GPU_PYTHON) -m $(FUZZ) write --sanitized build/gpu-fuzz-all

proofs: $(INSTALLED)
	$(BIN)/python proofs/make.py

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
