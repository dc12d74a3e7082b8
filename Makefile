# People and CI call the same targets; `make` alone lists them.
PYTHON ?= python3
VENV ?= .venv
CONFIG ?= configs/default.yaml
ARGS ?=
# The release of PyTorch that `make lock` pins.
TORCH ?= 2.13.0

BIN = $(VENV)/bin
STAMP = $(VENV)/.installed
PIP = -m pip --quiet --quiet --disable-pip-version-check
# "" or why PYTHON will not do.
PYTHON_FAULT = import sys; v = sys.version_info; \
  (3, 11) <= v[:2] < (3, 14) or sys.exit("Python 3.11 to 3.13 is needed, but $(PYTHON) is %d.%d; name another: make PYTHON=python3.12" % v[:2])

.PHONY: help install train test check schema lock clean

help:
	@echo 'make train [CONFIG=configs/x.yaml] [ARGS="--set key.path=value"]   train and evaluate (default: $(CONFIG))'
	@echo 'make test  [ARGS="-k attention"]      run the test suite'
	@echo 'make check                            lint, format, types, hygiene'
	@echo 'make install                          only make $(VENV) and install into it'
	@echo 'make schema                           write configs/schema.json'
	@echo 'make lock                             write requirements.lock anew from pyproject.toml'
	@echo 'make clean                            remove $(VENV), caches and build outputs; runs/ and data/ stay'

install: $(STAMP)

$(STAMP): requirements.lock pyproject.toml
	@$(PYTHON) -c '$(PYTHON_FAULT)'
	@echo 'Making $(VENV) ...'
	@$(PYTHON) -m venv $(VENV)
	@echo 'Installing requirements.lock (PyTorch is large; minutes the first time) ...'
	@$(BIN)/python $(PIP) install -r requirements.lock
	@echo 'Installing seq2seq ...'
	@$(BIN)/python $(PIP) install --no-deps --no-build-isolation -e .
	@touch $(STAMP)

train: $(STAMP)
	@$(BIN)/python -m seq2seq.train $(CONFIG) $(ARGS)

test: $(STAMP)
	@$(BIN)/python -m pytest $(ARGS)

check: $(STAMP)
	@echo 'ruff check ...'
	@$(BIN)/ruff check --quiet --output-format=concise .
	@echo 'ruff format --check ...'
	@$(BIN)/ruff format --quiet --check . || { echo 'some files are not formatted; mend with: $(BIN)/ruff format .'; exit 1; }
	@echo 'mypy ...'
	@$(BIN)/mypy
	@echo 'scripts/check_hygiene.py ...'
	@$(BIN)/python scripts/check_hygiene.py

schema: $(STAMP)
	@$(BIN)/python -m seq2seq.config > configs/schema.json.tmp
	@mv configs/schema.json.tmp configs/schema.json
	@echo 'Wrote configs/schema.json'

# A fresh environment, so that nothing left over from another install is pinned. What only PyTorch's CUDA builds
# depend on is left out, and so is the +cpu of a local build: the lock serves every platform.
lock:
	@$(PYTHON) -c '$(PYTHON_FAULT)'
	@rm -rf build/lock
	@$(PYTHON) -m venv build/lock
	@echo 'Resolving pyproject.toml with torch==$(TORCH) ...'
	@build/lock/bin/python $(PIP) install -e '.[dev]' 'setuptools>=77' torch==$(TORCH)
	@echo '# Made by `make lock` from pyproject.toml; install with: pip install -r requirements.lock' > build/lock/requirements
	@build/lock/bin/python $(PIP) freeze --all --exclude pip --exclude seq2seq \
	  | sed -e '/^nvidia-/d' -e '/^cuda-/d' -e '/^triton/d' -e 's/+[a-z0-9.]*$$//' >> build/lock/requirements
	@mv build/lock/requirements requirements.lock
	@rm -rf build/lock
	@echo 'Wrote requirements.lock'

clean:
	@[ ! -f $(STAMP) ] || rm -rf $(VENV)
	@rm -rf build dist *.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis .coverage
	@find . -name __pycache__ -type d -prune -exec rm -rf {} +
