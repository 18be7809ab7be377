# `make demo` and `make test` are the two commands; both set up their own environment in .venv from a fresh clone.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/ready

.PHONY: demo test test-full bench-kernels lint clean

demo: $(READY)
	$(BIN)/maitre demo

test: $(READY) lint
	$(BIN)/pytest -n 2 --dist loadgroup -m "not long"

test-full: $(READY) lint
	$(BIN)/pytest -n 2

lint: $(READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

bench-kernels: $(READY)
	$(BIN)/python benchmarks/kernels.py

$(READY): pyproject.toml requirements.lock
	$(PYTHON) -c "import sys; sys.exit(sys.version_info < (3, 11) and 'maitre needs Python 3.11 or newer; say which with: make PYTHON=python3.12 ...')"
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --requirement requirements.lock
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --editable .
	touch $(READY)

clean:
	rm -rf $(VENV) demo-output
	find src tests -name __pycache__ -type d -prune -exec rm -rf {} +
