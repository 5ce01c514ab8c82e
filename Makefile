# make demo   a complete small study, from prompts to a report
# make test   everything the tests need, and all tests
# make check  formatting, lint, types, import rules

PYTHON ?= python3
BIN := .venv/bin
INSTALL := $(BIN)/python -m pip install --disable-pip-version-check --quiet

.PHONY: demo test check system clean

demo: .venv/demo.stamp
	$(BIN)/guard-eval demo demo-study

test: .venv/test.stamp system check
	$(BIN)/pytest --numprocesses auto --dist loadfile --cov --cov-report=term

check: .venv/test.stamp
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports

.venv/bin/python:
	@$(PYTHON) -m venv .venv || { echo "on Debian: apt-get install python3-venv, then again" >&2; rm -rf .venv; exit 1; }

# PyTorch first: with an exact version pip may take a build that is at hand, and on a machine with a GPU the CUDA build.
.venv/torch.stamp: constraints.txt | .venv/bin/python
	$(INSTALL) "$$(grep '^torch==' constraints.txt)"
	touch $@

.venv/demo.stamp: pyproject.toml constraints.txt .venv/torch.stamp
	$(INSTALL) --constraint constraints.txt --editable '.[generate,annotate,judge]'
	touch $@

.venv/test.stamp: pyproject.toml constraints.txt .venv/torch.stamp
	$(INSTALL) --constraint constraints.txt --editable '.[all,dev]'
	touch $@

# The browser and the database server that the tests drive; nothing where they are installed.
system:
	tools/install_test_programs.sh

clean:
	rm -rf .venv demo-study
