# What to type. `make help` prints the list. Everything happens in .venv; nothing outside this folder is changed.
#
#   TORCH_INDEX=URL   a further package index, for PyTorch's CPU builds (far smaller than the CUDA builds on Linux)
#   PYTHON=PATH       the Python that makes the environment (3.11 or newer)
#   VENV=DIR          where the environment is made

VENV ?= .venv
BIN := $(VENV)/bin
PYTHON ?= $(shell for p in python3 python3.13 python3.12 python3.11 python; do \
	$$p -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && echo $$p && break; done)
WORKERS ?= $(shell n=$$(getconf _NPROCESSORS_ONLN 2>/dev/null || echo 2); test $$n -gt 8 && echo 8 || echo $$n)
SOAK_SCALE ?= 20
TORCH_INDEX ?=

# pip is quiet unless somebody watches.
QUIET := $(shell test -t 2 || echo --quiet)
PIP_INSTALL = $(BIN)/python -m pip install $(QUIET) --disable-pip-version-check -c constraints.txt \
	$(if $(TORCH_INDEX),--extra-index-url $(TORCH_INDEX))
# One thread per test process: the tests use every core already.
PYTEST = OMP_NUM_THREADS=$${OMP_NUM_THREADS:-1} $(BIN)/python -m pytest

.PHONY: help demo lint check test bench bench-gpu soak docs clean

help: ## this list
	@grep -hE '^[a-z-]+:.*## ' $(firstword $(MAKEFILE_LIST)) | sed -E 's/^([a-z-]+):.*## /make \1	/' | expand -t 18

demo: $(VENV)/.installed-hf ## install what the main job needs, and run it on a small example
	@$(BIN)/agentbench demo

lint: $(VENV)/.installed-dev ## format, lint, floors, types
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/lint-imports --no-logo
	$(BIN)/mypy

check: lint ## before every commit: lint and the fast tests, about a minute
	$(PYTEST) -q -n $(WORKERS) -m "not slow and not alone"

test: $(VENV)/.installed-dev ## every test, the slow ones too
	$(PYTEST) -n $(WORKERS) --dist worksteal -m "not alone"; beside=$$?; $(PYTEST) -m alone && exit $$beside

bench: $(VENV)/.installed-dev ## measure speed; JSON in .bench/ and a table
	$(BIN)/python -m tests.benchmarks

bench-gpu: $(VENV)/.installed-dev ## training on a GPU: speed, memory, learning; results in tests/benchmarks/results
	$(BIN)/python -P -m tests.benchmarks.gpu --out tests/benchmarks/results/gpu.json

SOAK = AGENTBENCH_SCALE=$(SOAK_SCALE) AGENTBENCH_RESULTS=.bench
soak: $(VENV)/.installed-dev ## the tests at SOAK_SCALE times their sizes; JSON in .bench/soak.json, soak-alone.json
	@mkdir -p .bench
	$(SOAK)/soak.json $(PYTEST) -n $(WORKERS) --dist worksteal -m "not alone"; beside=$$?; \
		$(SOAK)/soak-alone.json $(PYTEST) -m alone && exit $$beside

docs: $(VENV)/.installed-dev ## write the generated parts of the documentation again
	$(BIN)/python docs/generate.py

clean: ## remove caches and builds; .venv and runs stay
	rm -rf .bench .hypothesis .import_linter_cache .mypy_cache .pytest_cache .ruff_cache build dist
	find agentbench environments tests docs -name __pycache__ -type d -prune -exec rm -rf {} +

$(BIN)/python:
	@test -n "$(PYTHON)" || { echo "AgentBench needs Python 3.11 or newer; none was found on the PATH." \
		"Name one with: make PYTHON=/path/to/python3.11" >&2; exit 2; }
	@$(PYTHON) -m venv $(VENV) || { rm -rf $(VENV); echo "$(PYTHON) cannot make a virtual environment;" \
		"on Debian and Ubuntu install the package python3-venv." >&2; exit 2; }

$(VENV)/.installed-hf: pyproject.toml constraints.txt | $(BIN)/python
	@echo "Installing AgentBench, PyTorch and transformers into $(VENV)."
	@echo "This downloads about 0.3 GB with a CPU build of PyTorch (set TORCH_INDEX to PyTorch's index of CPU builds),"
	@echo "and about 3 GB with the CUDA build that Linux gets otherwise. Later runs download nothing."
	@$(PIP_INSTALL) -e ".[hf]"
	@touch $@

$(VENV)/.installed-dev: pyproject.toml constraints.txt | $(BIN)/python
	@echo "Installing AgentBench with PyTorch, transformers and the tools of its tests into $(VENV)."
	@echo "This downloads about 0.4 GB with a CPU build of PyTorch (TORCH_INDEX), about 3 GB with the CUDA build."
	@$(PIP_INSTALL) -e ".[dev]"
	@touch $(VENV)/.installed-hf $@
