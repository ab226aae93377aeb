# Everything runs in a virtual environment of the project's own, which these commands make and keep up to date.
# `make demo` and `make test` need Python 3.11 or later and a package index, nothing else.

VENV ?= .venv
BIN := $(VENV)/bin
ARGS ?=
DIR ?=
# what make chaos plays: killed workers on one server, or failovers (TOPOLOGY=cluster, TOPOLOGY=sentinel)
TOPOLOGY ?=
JOBS ?= $(if $(TOPOLOGY),50000,200000)
SECONDS ?= $(if $(TOPOLOGY),240,120)
SEEDS ?= 1000
CORE ?= -m core
# Most tests wait for leases to end, so more of them than there are cores can run side by side, each worker with a server.
WORKERS ?= 4

.PHONY: help demo test quick conformance matrix mutants seeds chaos check bench peers clean

help:
	@echo "make demo    the flash sale, for real (make demo ARGS=--dashboard shows it in a browser)"
	@echo "make test    all tests, against a real server that they start themselves (make test ARGS='-k lock')"
	@echo "make quick   types, unit tests, and the tests of one folder (make quick DIR=tests/locks)"
	@echo "make conformance  the core of the conformance suite on a primary behind Sentinels, and on a Cluster (CORE= for all)"
	@echo "make matrix  the conformance suite on every server, redis-py and Python (make matrix ARGS='-m core')"
	@echo "make mutants search for the seeds that catch mutants soonest, and pin them (make mutants DIR=tests/model)"
	@echo "make seeds   1,000 simulated and model runs of each kind: make test plays fewer (make seeds SEEDS=2000)"
	@echo "make chaos   200,000 jobs, locks, permits and elections whose processes are killed (make chaos JOBS=1000000)"
	@echo "             and with TOPOLOGY=cluster or sentinel 50,000 jobs, 5,000 locks, a failover every 20 s"
	@echo "make check   lint, types, import rules, and a wheel that installs"
	@echo "make bench   the benchmarks, each beside its floor (make bench ARGS='--quick')"
	@echo "make peers   how fast Lockwork and other Python queues run jobs, each by one worker process"
	@echo "make clean   remove the virtual environment and what the tools left"

demo: $(VENV)/.demo
	@$(BIN)/lockwork demo $(ARGS)

test: $(VENV)/.dev
	$(BIN)/python -m pytest -n $(WORKERS) --dist worksteal $(ARGS)

quick: $(VENV)/.dev
	$(BIN)/python -m mypy
	$(BIN)/python -m pytest -n $(WORKERS) --dist worksteal tests/unit $(DIR) $(ARGS)

conformance: $(VENV)/.dev
	LOCKWORK_TEST_TOPOLOGY=sentinel $(BIN)/python -m pytest -n $(WORKERS) --dist worksteal $(CORE) $(ARGS)
	LOCKWORK_TEST_TOPOLOGY=cluster $(BIN)/python -m pytest -n $(WORKERS) --dist worksteal $(CORE) $(ARGS)

matrix: $(VENV)/.dev
	@$(BIN)/python scripts/matrix.py $(ARGS)

mutants: $(VENV)/.dev
	LOCKWORK_PIN_MUTANTS=1 $(BIN)/python -m pytest -n $(WORKERS) --dist worksteal --timeout 1800 \
		$(or $(DIR),tests/model tests/simulation) $(ARGS)

seeds: $(VENV)/.dev
	LOCKWORK_SEEDS=$(SEEDS) LOCKWORK_EXAMPLES=$(SEEDS) $(BIN)/python -m pytest -n $(WORKERS) --dist worksteal \
		--timeout 3600 tests/model tests/simulation -k "not caught and not noticed" $(ARGS)

chaos: $(VENV)/.dev
	LOCKWORK_CHAOS_JOBS=$(JOBS) LOCKWORK_CHAOS_SECONDS=$(SECONDS) LOCKWORK_CHAOS_TOPOLOGY=$(TOPOLOGY) \
		$(BIN)/python -m pytest -s tests/chaos$(if $(TOPOLOGY),/test_failover_chaos.py, \
		tests/locks/test_sticky_stress.py --ignore tests/chaos/test_failover_chaos.py) $(ARGS)

check: $(VENV)/.dev
	@VENV=$(VENV) sh scripts/check.sh

bench: $(VENV)/.dev
	$(BIN)/python -m benchmarks $(ARGS)

# the other queues pin versions of their own, so they have an environment to themselves
peers: $(VENV)-peers/.ready
	@$(VENV)-peers/bin/python -m benchmarks.peers $(ARGS)

$(VENV)-peers/.ready: pyproject.toml
	@VENV=$(VENV)-peers sh scripts/venv.sh
	@echo "Installing Lockwork and other queues into $(VENV)-peers ..."
	@$(VENV)-peers/bin/python -m pip install --quiet --editable '.[fast]' --group peers
	@touch $@

clean:
	rm -rf $(VENV) $(VENV)-peers dist .pytest_cache .mypy_cache .ruff_cache .import_linter_cache .hypothesis .matrix

# A stamp is newer than pyproject.toml when what that asks for is installed.
$(VENV)/.demo: pyproject.toml | $(VENV)/.venv
	@echo "Installing Lockwork and what its demo needs into $(VENV) ..."
	@$(BIN)/python -m pip install --quiet --editable '.[dashboard,demo,fast]'
	@touch $@

$(VENV)/.dev: pyproject.toml | $(VENV)/.venv
	@echo "Installing Lockwork and what its tests need into $(VENV) ..."
	@$(BIN)/python -m pip install --quiet --editable '.[dashboard,demo,fast]' --group dev
	@touch $@ $(VENV)/.demo

$(VENV)/.venv:
	@VENV=$(VENV) sh scripts/venv.sh
	@touch $@
