# make demo   trains four parties on real digits, several ways
# make test   lint, types, tests, on two cores
# make docs   the documentation as a site, in build/site
# make siege   the library under attack, for hours; a part of it is in make test
# make sites   every method, faults and lying members over NVIDIA FLARE, for half an hour
# make docs-check   the papers' tables against what is in reproduce/; RUN=--run runs what is not there
# All make .venv and install what they need. PYTHON chooses the interpreter, 3.11 or newer.

PYTHON ?= python3
BIN := .venv/bin

.PHONY: demo test types tests docs docs-check bench siege sites clean even odd

demo: .venv/installed
	$(BIN)/colonnade demo

test: .venv/installed-for-tests
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(MAKE) --no-print-directory -j 2 types tests

types:
	$(BIN)/mypy

tests:
	$(BIN)/pytest -n 2 --dist worksteal

docs: .venv/installed
	$(INSTALL) -e '.[docs]'
	$(BIN)/mkdocs build

docs-check: .venv/installed
	$(BIN)/python benchmarks/docs_check.py $(RUN)

bench: .venv/installed-for-tests
	$(BIN)/python benchmarks/codecs.py
	$(BIN)/python benchmarks/effects.py
	$(BIN)/python benchmarks/feedback.py
	$(BIN)/python benchmarks/surrogates.py
	$(BIN)/python benchmarks/rounds.py
	$(BIN)/python benchmarks/private_rounds.py
	$(BIN)/python benchmarks/embeddings.py
	$(BIN)/python benchmarks/mechanisms.py
	$(BIN)/python benchmarks/clicks.py
	$(BIN)/python benchmarks/tables.py
	$(BIN)/python benchmarks/pipeline.py
	$(BIN)/python benchmarks/masks.py
	$(BIN)/python benchmarks/fields.py
	$(BIN)/python benchmarks/coded_rounds.py
	$(BIN)/python benchmarks/alignment.py
	$(BIN)/python benchmarks/federation.py

siege: .venv/installed-for-tests
	$(BIN)/python benchmarks/siege

sites: .venv/installed-for-tests
	$(BIN)/python benchmarks/sites

clean:
	rm -rf .venv build dist

.venv/bin/python:
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "colonnade needs Python 3.11 or newer; say PYTHON=python3.x")'
	$(PYTHON) -m venv .venv

INSTALL := $(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt

.venv/installed: pyproject.toml constraints.txt | .venv/bin/python
	$(INSTALL) -e .
	touch $@

# Of torch, scipy and the rest most modules are never imported: those that are, are compiled then.
unexport PYTHONDONTWRITEBYTECODE
.venv/installed-for-tests: pyproject.toml constraints.txt | .venv/bin/python
	-$(MAKE) --no-print-directory -j 2 even odd
	$(INSTALL) --no-compile -e '.[test]'
	touch .venv/installed $@

# pip unpacks one package at a time: two of them unpack what is pinned before pip sees what lacks.
PINNED = awk '/==/ && n++ % 2 == $(1)' constraints.txt | $(INSTALL) --no-compile --no-deps -r /dev/stdin

even odd: | .venv/bin/python
even:
	$(call PINNED,0)
odd:
	$(call PINNED,1)
