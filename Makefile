# `make demo` and `make test` need nothing but Python 3.11+ and make; they set up .venv themselves.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
READY  := $(VENV)/.ready
UV     := $(shell command -v uv 2>/dev/null)
# pytest rewrites each module of tests for its assertions: once, if it may keep them.
PYTEST := env -u PYTHONDONTWRITEBYTECODE $(BIN)/python -m pytest --dist loadgroup -p tools.suite.order
# A failed test runs once more, alone; the end of the run names it and says where the minutes went.
WHOLE  := -p tools.suite.rerun -p tools.suite.minutes

.PHONY: help setup demo test test-quick soak mutants lint format wheel bench lock clean

help:
	@echo "make demo        load 3,000 files exactly once with a pipeline that is killed twice on the way, and prove it"
	@echo "make test        lint, types, layers, and every test"
	@echo "make test-quick  the fast tests only (inner loop)"
	@echo "make soak        every test with as much as it can take: hours, before a release"
	@echo "make mutants     half an hour of small faults put into copies of the sources, and those that no test notices"
	@echo "make lint        ruff, mypy --strict, import-linter"
	@echo "make wheel       a wheel in dist/ whose hot path is compiled (needs a C compiler)"
	@echo "make bench       benchmarks, side by side with Apache Kafka, Spark, Kafka Streams, Flink and Quix, where Java and Maven are there"

# From compiled modules a program starts in a third of the time; with PYTHONDONTWRITEBYTECODE nothing else makes them.
setup: $(READY)
	-@$(BIN)/python -m compileall -qq src

$(READY): pyproject.toml requirements.lock
ifneq ($(UV),)
	@test -x $(BIN)/python || uv venv -q --python $(PYTHON) $(VENV)
	uv pip install -q --compile-bytecode --python $(BIN)/python -r requirements.lock
	uv pip install -q --python $(BIN)/python --no-deps -e .
else
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@$(BIN)/python -m pip --version >/dev/null 2>&1 || $(BIN)/python -m ensurepip >/dev/null
	$(BIN)/python -m pip install -q --disable-pip-version-check -r requirements.lock
	$(BIN)/python -m pip install -q --disable-pip-version-check --no-deps -e .
endif
	@touch $@

demo: setup
	@$(BIN)/python -m examples.demo

test: lint
	@$(PYTEST) -n 3 $(WHOLE)

soak: lint
	@ONCESTREAM_SOAK=1 $(PYTEST) -n 2 $(WHOLE)

test-quick: setup
	@$(PYTEST) -q -n 8 -m "not slow and not java"

mutants: setup
	@$(BIN)/python -m tools.mutants $(ARGS)

lint: setup
	@$(BIN)/ruff check -q .
	@$(BIN)/ruff format -q --check .
	@$(BIN)/mypy
	@$(BIN)/mypy --platform darwin --cache-dir .mypy_cache/darwin src
	@$(BIN)/lint-imports --no-cache

format: setup
	@$(BIN)/ruff check -q --fix .
	@$(BIN)/ruff format -q .

wheel: setup
	@$(BIN)/python -m tools.wheel

bench: setup
	@$(BIN)/python -m benchmarks.broker
	@$(BIN)/python -m benchmarks.transactions
	@$(BIN)/python -m benchmarks.pipelines

# The lock lists what `pip install` resolves for every supported Python; names and versions only.
lock:
	uv pip compile -q --universal --python-version 3.11 --group dev --extra spark --no-header --no-emit-index-url \
		--no-annotate pyproject.toml -o requirements.lock

clean:
	rm -rf $(VENV) .cache .mypy_cache .ruff_cache .pytest_cache .hypothesis build dist
