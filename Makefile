# `make demo` trains an agent from nothing; `make help` lists the rest.

# Found by the shell, because make splits a path with spaces into several.
here := $(shell cd "$$(dirname "$$(echo "$(MAKEFILE_LIST)" | sed 's/^ *//')")" && pwd)
in := cd "$(here)" &&
python := .venv/bin/python
# One thread for each of two workers: threads beyond the cores are slower than none.
tests := OMP_NUM_THREADS=1 $(python) -m pytest -n $(or $(WORKERS),2) --dist worksteal

.DEFAULT_GOAL := help
.PHONY: help setup demo play test test-slow faults wheel results docs check format clean distclean

help:
	@echo "make setup      create .venv and install the pinned dependencies and the package"
	@echo "make demo       train the default agent on the default game, a few minutes"
	@echo "make play       play in the dream of a pretrained agent, in a browser"
	@echo "make test       the everyday tests;  make test-slow  all of them"
	@echo "make faults     kills, power losses, damages and nonsense;  MINUTES=20"
	@echo "make wheel      build dist/*.whl, install it elsewhere and use it"
	@echo "make results    make the tables of README.md, docs/results.md and docs/agents"
	@echo "make docs       build the documentation site in site/"
	@echo "make check      formatting, lint, types, import layers, sizes"
	@echo "make format     put formatting and the order of imports right"
	@echo "make clean      remove caches;  make distclean  .venv too (runs/ always stays)"

setup:
	@$(in) bash scripts/setup

demo: setup
	@$(in) .venv/bin/tokenworlds train

play: setup
	@$(in) .venv/bin/tokenworlds play

test: setup
	@$(in) $(tests) -m "not slow"

test-slow: setup
	@$(in) $(tests)

faults: setup
	@$(in) OMP_NUM_THREADS=1 $(python) scripts/faults --minutes $(or $(MINUTES),20)

# A wheel of an earlier version would be ambiguous.
wheel: setup
	@$(in) rm -rf dist && $(python) scripts/wheel_check --out dist

results: setup
	@$(in) $(python) scripts/results

docs: setup
	@$(in) bash scripts/docs

check: setup
	@$(in) bash scripts/check

format: setup
	@$(in) $(python) -m ruff format && $(python) -m ruff check --fix

clean:
	@$(in) rm -rf build dist site src/*.egg-info .pytest_cache .mypy_cache .ruff_cache \
		.import_linter_cache .hypothesis
	@$(in) find src tests scripts -name __pycache__ -type d -prune -exec rm -rf {} +

distclean: clean
	@$(in) rm -rf .venv
