# Two commands: `make demo` shows what fts does, `make test` checks that it does. Each makes .venv first when it is missing.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
INSTALLED := $(VENV)/.installed
TORCH := $(VENV)/.torch

.PHONY: demo test test-slow lint clean

demo: $(INSTALLED)
	$(BIN)/python samples/season_style/demo.py

test: $(INSTALLED)
	$(BIN)/python tools/check.py

test-slow: $(TORCH)
	$(BIN)/python tools/check.py --slow

lint: $(INSTALLED)
	$(BIN)/python tools/check.py --lint

clean:
	rm -rf $(VENV) out build dist .mypy_cache .ruff_cache .pytest_cache .import_linter_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

# The stamp is written last, so that a stopped install starts over. hatchling first: the package is then built with the
# version of constraints.txt instead of with whatever an isolated build fetches.
$(INSTALLED): pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; v = sys.version_info[:2]; sys.exit(0 if (3, 10) <= v <= (3, 12) else 1)' || { \
	  echo "make: $(PYTHON) is missing or not Python 3.10, 3.11 or 3.12; name one: make PYTHON=python3.12 $(MAKECMDGOALS)" >&2; exit 1; }
	$(PYTHON) -m venv --clear $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt hatchling
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt --no-build-isolation -e '.[dev]'
	@touch $@

# torch is large, so only the slow tests bring it.
$(TORCH): $(INSTALLED)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt --no-build-isolation -e '.[dev,torch]'
	@touch $@
