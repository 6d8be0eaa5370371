# make run · make test · make lint · make viz · make docs · make bench: each makes the environment it needs.
PYTHON ?= python3
VENV ?= .venv
DATASETS ?= simulated
BIN := $(VENV)/bin
export DO_NOT_TRACK := 1

.PHONY: run test test-kills audit mutants lint format viz docs bench clean
.DEFAULT_GOAL := run

$(VENV)/.installed: pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
		{ echo "deep-interest needs Python 3.11 or newer; name one: make PYTHON=python3.12"; exit 1; }
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt torch
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable '.[dev]'
	@touch $@

run: $(VENV)/.installed  ## the simulated dataset, from drawing the log to the table
	$(BIN)/kedro run

test: $(VENV)/.installed  ## the whole test suite
	$(BIN)/python -m pytest --numprocesses=2 --dist=worksteal

test-kills: $(VENV)/.installed  ## retraining, killed at 20 random moments of a run
	DEEP_INTEREST_KILLS=20 $(BIN)/python -m pytest tests/end_to_end/test_retraining.py -k killed

audit: $(VENV)/.installed  ## 40 killed runs, 20 pairs of runs at the same time, 200 damaged files, 2,000 bit flips (over an hour)
	$(BIN)/python benchmarks/audit/kills.py --count 40
	$(BIN)/python benchmarks/audit/parallel_runs.py --count 20
	$(BIN)/python benchmarks/audit/damaged_files.py --count 200
	$(BIN)/python benchmarks/audit/bit_flips.py --count 1000

mutants: $(VENV)/.installed  ## 300 changes of the code, one at a time: which ones does no test notice? (hours; resumes)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable '.[mutants]'
	$(BIN)/python benchmarks/audit/mutants.py

lint: $(VENV)/.installed  ## style, and which floor may import which
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/lint-imports

format: $(VENV)/.installed  ## put the code into the project's form
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

viz: $(VENV)/.installed  ## look at the pipelines in a browser; make viz DATASETS=amazon_beauty for those of another dataset
	DEEP_INTEREST_DATASETS=$(DATASETS) $(BIN)/kedro viz run

docs: $(VENV)/.installed  ## the documentation as a site, below site/; a broken link is an error
	$(BIN)/mkdocs build --strict

bench: $(VENV)/.installed  ## speed and memory, also against other libraries (over an hour), and docs/performance.md
	@mkdir -p build/bench
	test -d build/peers/environments || $(BIN)/python benchmarks/compare.py --install
	for name in ingest train breakdown scale score compare; do $(BIN)/python benchmarks/$$name.py > build/bench/$$name.jsonl || exit 1; done
	$(BIN)/python benchmarks/page.py build/bench/*.jsonl

clean:  ## remove what runs have made; raw files stay
	find data -type f ! -name .gitkeep ! -path 'data/01_raw/*' -delete
	find data -mindepth 2 -type d -empty ! -path 'data/01_raw/*' -delete
