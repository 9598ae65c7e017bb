# Two commands do their own set-up: `make chat` and `make test`. Both need only Python 3.11+ and make.

# the first that is there, runs, and is new enough
PYTHON ?= $(shell for p in python3 python3.13 python3.12 python3.11; do \
	$$p -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && command -v $$p && break; done)
VENV   ?= .venv
BIN    := $(VENV)/bin
JOBS   ?= auto
PIP    := $(BIN)/python -m pip install --quiet --disable-pip-version-check
EXTRAS := chat,grpc,mcp,memory,plugins,rest,serve,sql

.DEFAULT_GOAL := help
.PHONY: help chat install test test-all test-deps check lint format bench docs docs-serve clean

help:
	@echo "make chat      chat with an agent (installs what it needs; MAINSTAY_LOCAL=1: with a local model, without asking)"
	@echo "make test      lint, types and tests (installs what it needs)"
	@echo "make test-all  the same with all cases of the slow suites, after make test-deps"
	@echo "make check     lint, types, and the number of promises without a test"
	@echo "make format    format the code"
	@echo "make bench     run the benchmarks, compared with a hand-written loop"
	@echo "make docs      generate the reference pages, and build the site into site/"
	@echo "make install   create the development environment only"

chat: $(VENV)/.chat  # with no key and no model server: offers to bring a small model, which MAINSTAY_LOCAL=1 accepts
	@$(BIN)/mainstay chat || :

install: $(VENV)/.dev

test: $(VENV)/.dev check
	@$(BIN)/python -m pytest -n $(JOBS) --dist worksteal

test-all: $(VENV)/.dev check
	@MAINSTAY_TEST_ALL=1 $(BIN)/python -m pytest -n $(JOBS) --dist worksteal --timeout 1800

test-deps: $(VENV)/.dev  # a MariaDB, for the backends; everything else comes with the development environment
	@command -v mariadbd >/dev/null || apt-get install -y -qq mariadb-server || echo "install MariaDB for the tests that need it" >&2

check: lint
	@$(BIN)/python tests/requirements/check.py

lint: $(VENV)/.dev
	@$(BIN)/ruff check --no-cache . # a cached verdict misses an import whose module moved
	@$(BIN)/ruff format --check .
	@$(BIN)/mypy

format: $(VENV)/.dev
	@$(BIN)/ruff check --fix .
	@$(BIN)/ruff format .

bench: $(VENV)/.dev
	@$(BIN)/python benchmarks/run.py
	@$(BIN)/python benchmarks/prompt_cache.py --out benchmarks/results/cache.json
	@$(BIN)/python benchmarks/retrieval.py --out benchmarks/results/retrieval.json
	@$(BIN)/python benchmarks/memory_speed.py --out benchmarks/results/memory_speed.json
	@$(BIN)/python benchmarks/trust.py --out benchmarks/results/trust.json
	@$(BIN)/python benchmarks/guards.py --out benchmarks/results/guards.json
	@$(BIN)/python benchmarks/sandbox.py --out benchmarks/results/sandbox.json
	@$(BIN)/python benchmarks/patterns.py --out benchmarks/results/patterns.json
	@$(BIN)/python benchmarks/plugins.py --out benchmarks/results/plugins.json
	@$(BIN)/python benchmarks/budgets_and_observability.py --out benchmarks/results/accounts.json
	@$(BIN)/python benchmarks/rate_limiter.py
	@$(BIN)/python benchmarks/gateway.py
	@$(BIN)/python scripts/reference.py

docs: $(VENV)/.docs  # strict: a link that leads nowhere is an error; nothing is fetched from elsewhere
	@$(BIN)/python scripts/reference.py
	@rm -rf site
	@$(BIN)/zensical build --strict
	@echo "site/index.html; make docs-serve shows it with its search"

docs-serve: docs  # builds again what changes
	@$(BIN)/zensical serve

clean:
	rm -rf $(VENV) build dist site .pytest_cache .mypy_cache .ruff_cache

$(VENV)/bin/python:
	@test -n "$(PYTHON)" || { echo "no Python 3.11 or newer was found; say where one is: make PYTHON=/path/to/python3" >&2; exit 1; }
	@$(PYTHON) -m venv $(VENV)

$(VENV)/.chat: pyproject.toml | $(VENV)/bin/python
	@echo "Setting up (once; a minute, some 450 MB in $(VENV))…"
	@$(PIP) -e '.[$(EXTRAS),local]' --only-binary xllamacpp 2>/dev/null || { \
		echo "Trying without llama.cpp…" >&2; $(PIP) -e '.[$(EXTRAS)]'; }
	@touch $@

$(VENV)/.dev: pyproject.toml | $(VENV)/bin/python
	@echo "Setting up (once)…"
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[dev]'
	@touch $@ $(VENV)/.chat

$(VENV)/.docs: pyproject.toml | $(VENV)/bin/python
	@echo "Setting up (once)…"
	@$(PIP) -e '.[docs]'
	@touch $@
