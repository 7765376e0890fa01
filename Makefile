# Two commands for a machine that has Python 3.10 or newer with its headers, pip and make, and nothing else:
#
#     make demo    install, then show classes, masks and speed on a real vocabulary
#     make test    install, then run every check
#
# And for those who change the code:
#
#     make build   compile what has changed (the two above do)
#     make wheel   a wheel for this machine, in dist/
#     make docs    the documentation as a site, in build/docs
#
# PYTHON=python3.12 chooses the interpreter of a new environment, WORKERS=4 runs tests in so many processes (up to
# 2 GB each); `make clean` removes the environment.

PYTHON ?= python3
VENV ?= .venv
WORKERS ?= 2
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check
TORCH := $(shell sed -n 's/^torch==/torch==/p' constraints.txt)

.DEFAULT_GOAL := help
.PHONY: help demo test build wheel docs lint types unit checked format clean

help:
	@sed -n 's/^#     \(make .*\)/\1/p' Makefile

# Sets another compiler where there is none (tools/compiler.py).
WITH_COMPILER = . $(abspath $(VENV))/compiler.sh &&

# Each stamp says "installed as these files ask"; the project itself is installed editable, so that a change of the
# code needs no new installation, and is built with what is installed, so that little is built again.
$(VENV)/.project: pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 10) and "Python 3.10 or newer is needed, this is %d.%d; say make PYTHON=..." % sys.version_info[:2])'
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@$(BIN)/python tools/compiler.py $(VENV)/compiler.sh
	@echo "installing into $(VENV), once; torch is large, so this can take some minutes"
	$(PIP) install --quiet $(TORCH)
	$(PIP) install --quiet --constraint constraints.txt setuptools cython
	$(WITH_COMPILER) $(PIP) install --quiet --constraint constraints.txt --no-build-isolation --editable '.[demo,pages]'
	touch $@

$(VENV)/.test: $(VENV)/.project
	@$(BIN)/python tools/extra.py test > $(VENV)/test.txt
	$(PIP) install --quiet --constraint constraints.txt --requirement $(VENV)/test.txt
	touch $@

demo: build
	$(BIN)/python -m hybrid demo

# The compiled modules, after an edit; what has not changed is not compiled again.
build: $(VENV)/.project
	@$(WITH_COMPILER) $(BIN)/python setup.py --quiet build_ext --inplace

wheel: $(VENV)/.project
	$(WITH_COMPILER) $(PIP) wheel --quiet --no-deps --no-build-isolation --wheel-dir dist .

# The tests do the same, so a link or a docstring that is wrong fails there, too.
docs: $(VENV)/.test
	$(BIN)/python -m mkdocs build --strict

test: build lint types unit checked

lint: $(VENV)/.test
	$(BIN)/python -m ruff check .
	$(BIN)/python -m ruff format --check .

types: $(VENV)/.test
	$(BIN)/python -m mypy

unit: build $(VENV)/.test
	$(BIN)/python -m pytest --numprocesses $(WORKERS)

# The tests of compiled modules again, in a copy of the code whose modules check every index. Where a function cannot
# raise, what is out of range is only reported: that is an error here.
checked: $(VENV)/.test
	$(WITH_COMPILER) $(BIN)/python tools/checked.py
	cd build/checked && $(abspath $(BIN))/python -m pytest -m kernels --numprocesses $(WORKERS) \
		-W error::pytest.PytestUnraisableExceptionWarning

format: $(VENV)/.test
	$(BIN)/python -m ruff check --fix .
	$(BIN)/python -m ruff format .

clean:
	rm -rf $(VENV) build *.egg-info .mypy_cache .pytest_cache .ruff_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
	find equivalence hybrid -name '*.so' -delete
