# Everything runs in a virtual environment of the project's own, which these commands make and keep up to date.
# `make demo` and `make test` need Python 3.11 or later and a package index, nothing else.

VENV ?= .venv
BIN := $(VENV)/bin
ARGS ?=
DIR ?=
# what make chaos plays: its tier, one of its pieces, one topology of the failovers, and counts (tests/chaos/tiers.py)
TIER ?= long
TOPOLOGY ?=
PIECE ?= $(if $(TOPOLOGY),failovers)
CHAOS := TIER TOPOLOGY SEED JOBS KILLS STOPS CYCLES SERVER_KILLS FAILOVERS SECONDS
chaos_jobs := tests/chaos/test_queue_chaos.py tests/chaos/test_forged_messages_chaos.py
chaos_locks := $(patsubst %,tests/chaos/test_%_chaos.py,lock permits election) tests/locks/test_sticky_stress.py
chaos_servers := tests/chaos/test_server_chaos.py
chaos_failovers := tests/chaos/test_failover_chaos.py
PIECES := jobs locks servers failovers
# the page with the report of the nightly tier
REPORT ?= $(if $(filter nightly,$(TIER)),docs/reliability.md)
SEEDS ?= 1000
CORE ?= -m core
# Most tests wait for leases to end, so more of them than there are cores can run side by side, each worker with a server.
WORKERS ?= 6

.PHONY: help demo test quick conformance matrix mutants seeds chaos check bench peers docs release constraints clean

help:
	@echo "make demo    the flash sale, for real (make demo ARGS=--dashboard shows it in a browser)"
	@echo "make test    all tests, against a real server that they start themselves (make test ARGS='-k lock')"
	@echo "make quick   types, unit tests, and the tests of one folder (make quick DIR=tests/locks)"
	@echo "make conformance  the core of the conformance suite on a primary behind Sentinels, and on a Cluster (CORE= for all)"
	@echo "make matrix  the conformance suite on every server, redis-py and Python (make matrix ARGS='-m core')"
	@echo "make mutants search for the seeds that catch mutants soonest, and pin them (make mutants DIR=tests/models)"
	@echo "make seeds   1,000 simulated and model runs of each kind: make test plays fewer (make seeds SEEDS=2000)"
	@echo "make chaos   kills processes and servers under 300,000 jobs, and counts what was lost (make chaos PIECE=jobs)"
	@echo "             and with TIER=nightly more of each, with a report in docs/reliability.md"
	@echo "make check   lint, types, import rules, and a wheel that installs"
	@echo "make bench   the benchmarks, each beside its floor (make bench ARGS='--quick')"
	@echo "make peers   how fast and how soon Lockwork and other queues run jobs (make peers ARGS='noop --quick')"
	@echo "make docs    the documentation's site, in site/"
	@echo "make release builds a release into dist/, checks it, and tries it (make release ARGS=--rehearse)"
	@echo "make constraints  the exact versions that CI installs, in constraints.txt"
	@echo "make clean   remove the virtual environment and what the tools left"

demo: $(VENV)/.demo
	@$(BIN)/lockwork demo $(ARGS)

test: $(VENV)/.dev
	$(BIN)/python -m pytest -n $(WORKERS) --dist worksteal $(ARGS)

quick: $(VENV)/.dev
	$(BIN)/python -m mypy
	$(BIN)/python -m pytest -n $(WORKERS) --dist worksteal tests/unit $(DIR) $(ARGS)

# both side by side, each with half of the workers
conformance: $(VENV)/.dev
	@sh scripts/parallel.sh $(foreach topology,sentinel cluster,$(topology) "LOCKWORK_TEST_TOPOLOGY=$(topology) \
		$(BIN)/python -m pytest -n $$(( ($(WORKERS) + 1) / 2 )) --dist worksteal $(CORE) $(subst ",\",$(ARGS))")

matrix: $(VENV)/.dev
	@$(BIN)/python scripts/matrix.py $(ARGS)

mutants: $(VENV)/.dev
	LOCKWORK_PIN_MUTANTS=1 $(BIN)/python -m pytest -n $(WORKERS) --dist worksteal --timeout 1800 \
		$(or $(DIR),tests/models tests/simulator tests/*/model) $(ARGS)

seeds: $(VENV)/.dev
	LOCKWORK_SEEDS=$(SEEDS) LOCKWORK_EXAMPLES=$(SEEDS) $(BIN)/python -m pytest -n $(WORKERS) --dist worksteal \
		--timeout 3600 tests/models tests/simulator tests/*/model -k "not caught and not noticed" $(ARGS)

chaos: $(VENV)/.dev
	$(foreach name,$(CHAOS) REPORT,$(if $($(name)),LOCKWORK_CHAOS_$(name)=$($(name)))) $(BIN)/python -m pytest -s \
		$(foreach piece,$(or $(PIECE),$(PIECES)),$(or $(chaos_$(piece)),$(error no piece $(piece): use $(PIECES)))) $(ARGS)

check: $(VENV)/.dev
	@VENV=$(VENV) sh scripts/check.sh

bench: $(VENV)/.dev
	$(BIN)/python -m benchmarks $(ARGS)

# the other queues pin versions of their own, so they have an environment to themselves
peers: $(VENV)-peers/.ready
	@$(VENV)-peers/bin/python -m benchmarks.peers $(ARGS)

$(VENV)-peers/.ready: pyproject.toml scripts/peers.sh
	@VENV=$(VENV)-peers sh scripts/peers.sh
	@touch $@

# the site's builder pins versions of its own, too
docs: $(VENV)-docs/.ready
	@$(VENV)-docs/bin/python scripts/docs.py

$(VENV)-docs/.ready: pyproject.toml | $(VENV)-docs/.venv
	@$(VENV)-docs/bin/python -m pip install --quiet --editable '.[dashboard,metrics,sentry]' --group docs
	@touch $@

$(VENV)-docs/.venv:
	@VENV=$(VENV)-docs sh scripts/venv.sh
	@touch $@

release: $(VENV)/.dev
	@$(BIN)/python scripts/release.py $(ARGS)

constraints: $(VENV)/.dev
	@$(BIN)/python -m pip freeze --exclude-editable --exclude pip >constraints.txt

clean:
	rm -rf $(VENV) $(VENV)-docs $(VENV)-peers build dist site .pytest_cache .mypy_cache .ruff_cache .import_linter_cache .hypothesis .matrix

# A stamp is newer than pyproject.toml when what that asks for is installed.
$(VENV)/.demo: pyproject.toml | $(VENV)/.venv
	@echo "Installing Lockwork and what its demo needs into $(VENV) ..."
	@$(BIN)/python -m pip install --quiet --editable '.[dashboard,demo,fast]'
	@touch $@

$(VENV)/.dev: pyproject.toml | $(VENV)/.venv
	@echo "Installing Lockwork and what its tests need into $(VENV) ..."
	@$(BIN)/python -m pip install --quiet --editable '.[dashboard,demo,fast]' --group dev
	@# pytest rewrites its plugins in each process that may not write bytecode: write it once
	@PYTHONDONTWRITEBYTECODE= $(BIN)/python -m pytest --markers >/dev/null
	@touch $@ $(VENV)/.demo

$(VENV)/.venv:
	@VENV=$(VENV) sh scripts/venv.sh
	@touch $@
