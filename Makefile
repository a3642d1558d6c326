# `make up` and `make test` need only python3 (3.11 or newer).

PYTHON ?= python3
BIN := .venv/bin

TESTERS ?= 2

# Some shells set this variable, which stops Python from caching bytecode. All processes here load the same modules, and each
# would compile them again, which takes longer than the rest of its start.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: help install up test check bench fault fmt
.DEFAULT_GOAL := help

help: ## this list
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "make %-8s %s\n", $$1, $$2 }' Makefile

install: ## make or refresh .venv
	@command -v "$(PYTHON)" >/dev/null 2>&1 || { echo "quita needs python3 (3.11 or newer) on the PATH" >&2; exit 1; }
	@"$(PYTHON)" bootstrap.py

up: install ## run everything here, until Ctrl-C
	@exec $(BIN)/quita up

test: install ## the tests, two files at a time (TESTERS=1: one after the other); not those of `make fault`
	@$(BIN)/python -m pytest -n $(TESTERS) --dist loadfile --no-loadscope-reorder $(ARGS)

check: install ## format, lint, types, layers, tests
	@$(BIN)/python -m ruff format --check .
	@$(BIN)/python -m ruff check .
	@$(BIN)/python -m mypy .
	@$(BIN)/lint-imports
	@$(BIN)/python -m pytest -n $(TESTERS) --dist loadfile --no-loadscope-reorder $(ARGS)

bench: install ## loads and ratios, printed as tables
	@$(BIN)/python -m bench $(ARGS)

fault: install ## the tests that break things on purpose, and those that take minutes
	@FAULT=full $(BIN)/python -m pytest tests/fault tests/walk tests/conformance/test_in_cells.py tests/integration/cells tests/journeys/test_roles.py \
		tests/journeys/test_for_everybody.py tests/integration/cli/test_locustfile.py \
		tests/property/test_refunds_property.py tests/contract/test_schemathesis.py tests/contract/test_generated_clients.py $(ARGS)

fmt: install ## format, and repair what can be repaired
	@$(BIN)/python -m ruff format .
	@$(BIN)/python -m ruff check --fix .
