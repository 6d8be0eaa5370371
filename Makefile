# Every target creates the environment it needs (.venv). Most used: run, test, lint, docs, viz.
PYTHON ?= python3
VENV ?= .venv
DATASETS ?= simulated
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check --no-compile --constraint constraints.txt
COMPILE := $(BIN)/python -m compileall -qq -j 0 $(VENV)/lib || true  # on all cores, which pip does on one; some packages hold files of Python 2
export DO_NOT_TRACK := 1
unexport PYTHONDONTWRITEBYTECODE  # the tests start many processes, each of which would compile all modules

.PHONY: run test test-fast test-cluster test-cluster-nightly test-nightly coverage test-kills audit mutants lint format viz notebook docs bench clean
.DEFAULT_GOAL := run

$(VENV)/.installed: pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
		{ echo "deep-interest needs Python 3.11 or newer; choose one with make PYTHON=python3.12"; exit 1; }
	$(PYTHON) -m venv $(VENV)
	$(PIP) torch
	$(PIP) --editable '.[dev]'
	@$(COMPILE)
	@touch $@

run: $(VENV)/.installed  ## run the simulated dataset, from the log to the table
	$(BIN)/kedro run

test: $(VENV)/.installed  ## run all tests but those marked nightly
	$(BIN)/python -m pytest --numprocesses=2 --dist=worksteal

test-fast: $(VENV)/.installed  ## run the tests that take at most about 0.2 s each (a minute)
	$(BIN)/python -m pytest --numprocesses=2 --dist=worksteal -m "not slow"

$(VENV)/.cluster: $(VENV)/.installed
	$(PIP) --editable '.[dev,spark,cluster]'
	$(PIP) --no-deps torchrec
	@$(COMPILE)
	@touch $@

test-cluster: $(VENV)/.cluster  ## run the tests of DuckDB's and Spark's data path and of training on several processes; they need Java 17
	DEEP_INTEREST_CLUSTER=1 $(BIN)/python -m pytest --numprocesses=2 --dist=worksteal -m cluster tests/cluster

test-cluster-nightly: $(VENV)/.cluster  ## run the tests of engines and several processes that are too slow for `make test-cluster`
	DEEP_INTEREST_CLUSTER=1 DEEP_INTEREST_NIGHTLY=1 $(BIN)/python -m pytest -m "cluster and nightly" tests/cluster

test-nightly: $(VENV)/.installed  ## run the tests that are too slow for `make test`: every export, ablations, damaged files, the package, the notebook
	DEEP_INTEREST_NIGHTLY=1 $(BIN)/python -m pytest --numprocesses=2 --dist=worksteal -m nightly

coverage: $(VENV)/.installed  ## run all tests and list the lines that no test runs, without compiled kernels
	$(BIN)/python -m pytest --numprocesses=2 --dist=worksteal --cov=deep_interest --cov-report=term-missing:skip-covered

test-kills: $(VENV)/.installed  ## kill retraining at 20 random moments of a run
	DEEP_INTEREST_KILLS=20 $(BIN)/python -m pytest tests/end_to_end/test_retraining.py -k killed

audit: $(VENV)/.installed  ## kill 40 runs, start 20 pairs of runs, damage 200 files, flip 2,000 bits (over an hour)
	$(BIN)/python benchmarks/audit/kills.py --count 40
	$(BIN)/python benchmarks/audit/parallel_runs.py --count 20
	$(BIN)/python benchmarks/audit/damaged_files.py --count 200
	$(BIN)/python benchmarks/audit/bit_flips.py --count 1000

mutants: $(VENV)/.installed  ## mutation testing with 300 mutants (hours; resumes when interrupted)
	$(PIP) --editable '.[mutants]'
	$(BIN)/python benchmarks/audit/mutants.py

lint: $(VENV)/.installed  ## check style, types, the layers of the packages, and the words
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/lint-imports
	$(BIN)/mypy
	$(BIN)/python tools/check_words.py

format: $(VENV)/.installed  ## format the code
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

viz: $(VENV)/.installed  ## show the pipelines in a browser; for another dataset: make viz DATASETS=amazon_beauty
	DEEP_INTEREST_DATASETS=$(DATASETS) $(BIN)/kedro viz run

notebook: $(VENV)/.installed  ## run the tour notebook and save its outputs (about a minute)
	$(BIN)/jupyter execute --inplace notebooks/tour.ipynb

docs: $(VENV)/.installed  ## build the documentation in site/; broken links are errors
	$(BIN)/mkdocs build --strict

bench: $(VENV)/.installed  ## measure speed, also of other libraries; update docs/performance.md (over an hour)
	@mkdir -p build/bench
	test -d build/peers/environments || $(BIN)/python benchmarks/compare.py --install
	for name in ingest train breakdown scale score compare; do \
		$(BIN)/python benchmarks/$$name.py > build/bench/$$name.jsonl || exit 1; \
	done
	$(BIN)/python benchmarks/page.py build/bench/*.jsonl

clean:  ## remove everything that runs have written, except raw files
	find data -type f ! -name .gitkeep ! -path 'data/01_raw/*' -delete
	find data -mindepth 2 -type d -empty ! -path 'data/01_raw/*' -delete
