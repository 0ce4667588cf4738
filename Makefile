# Keyturn. `make` lists the targets. All they need is Python 3.11 or newer with venv and pip; uv is used if it is there.

PYTHON ?= python3
VENV   ?= .venv
JOBS   ?= 2
# Test processes: more than there are cores, since many tests wait for browsers, terminals and processes they started.
WORKERS ?= 3
ARGS   ?=

BIN   := $(VENV)/bin
PEERS := .venv-peers
DEEP  := .venv-deep
UV    := $(shell command -v uv 2>/dev/null)

, := ,

# Without bytecode each of the processes that the tests start compiles all that it imports.
unexport PYTHONDONTWRITEBYTECODE

# What the set-up rules share; $(1) is the environment. An environment whose Python is gone or lacks pip is made anew.
NEW_ENOUGH = $(PYTHON) -c "import sys; sys.exit(sys.version_info < (3, 11))"
MAKE_VENV  = $(1)/bin/python $(if $(UV),-c "",-m pip --version) 2>/dev/null || { rm -rf $(1)/bin $(1)/lib* && $(PYTHON) -m venv $(1); }
PIP        = $(1)/bin/python -m pip install --quiet --no-compile --disable-pip-version-check --no-input
INSTALL    = $(if $(UV),$(UV) pip install --quiet --python $(1)/bin/python $(2) || )$(call PIP,$(1)) $(2)

# $(call quietly,ENVIRONMENT,WHAT,COMMANDS): one line to read; the rest goes to a log whose end is shown if it fails.
define quietly
	@echo "$(2)" >&2; mkdir -p $(1); \
	{ $(3); } >>$(1)/setup.log 2>&1 </dev/null || \
	{ tail -n 25 $(1)/setup.log >&2; echo "That failed; the whole log is $(1)/setup.log" >&2; exit 1; }
endef

.DEFAULT_GOAL := help
.PHONY: help soak load setup demo test check lint types quick-types imports shape format kinds previews pictures probes strings site package bench bench-doors apart bench-peers sweep mutants pace pile recovery first-decision first-command trials costs simulate explore crash race rot forge signatures texts deep-peers leaks audit-trial alike published coding-agents model-servers lock clean distclean aap-adapters

help: ## Show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-12s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

# ------------------------------------------------------------------------------------------------------------ set-up

$(VENV)/.runtime: pyproject.toml requirements/dev.txt
	@$(NEW_ENOUGH) || { echo "Keyturn needs Python 3.11 or newer: make PYTHON=/path/to/python3.12 ..." >&2; exit 1; }
	$(call quietly,$(VENV),Setting up $(VENV) (once) ...,{ $(call MAKE_VENV,$(VENV)); } && { $(call INSTALL,$(VENV),-c requirements/dev.txt -e '.[server$(,)chat]'); })
	@touch $@

$(VENV)/.ready: $(VENV)/.runtime
	$(call quietly,$(VENV),Installing the tools of the tests (once) ...,$(call INSTALL,$(VENV),-r requirements/dev.txt))
	@touch $@

# What the tests use of the machine, as program:package-of-Debian. Where Debian's packages can be had, what is missing is
# installed; where they cannot, the tests that need it are skipped and say so.
SYSTEM  = initdb:postgresql bwrap:bubblewrap ssh-keygen:openssh-client openssl:openssl $(BROWSERS)
BROWSERS = chromium-headless-shell:chromium-headless-shell chromium:chromium
APT_GET = DEBIAN_FRONTEND=noninteractive timeout 600 apt-get -q
define install_system
lacking=; \
for pair in $(SYSTEM); do \
  program=$${pair%%:*}; package=$${pair#*:}; \
  command -v $$program || ls /usr/lib/postgresql/*/bin/$$program 2>/dev/null && continue; \
  test "$$(id -u)" = 0 && command -v apt-get || { lacking="$$lacking $$package"; continue; }; \
  $(APT_GET) install -y $$package && continue; \
  test -n "$$updated" || $(APT_GET) update; updated=yes; \
  $(APT_GET) install -y $$package || lacking="$$lacking $$package"; \
done; echo $$lacking >$(VENV)/.lacking
endef
$(VENV)/.system: Makefile | $(VENV)/.runtime
	$(call quietly,$(VENV),Looking for what the tests use of this machine (once) ...,$(install_system))
	@! grep -q . $(VENV)/.lacking || echo "Not there, and not to be had here: $$(cat $(VENV)/.lacking). What needs it is skipped." >&2
	@touch $@

$(PEERS)/.ready: requirements/peers.txt
	$(call quietly,$(PEERS),Installing the peers into $(PEERS) (once) ...,{ $(call MAKE_VENV,$(PEERS)); } && { $(call INSTALL,$(PEERS),-r requirements/peers.txt); })
	@touch $@

$(DEEP)/.ready: requirements/deep-peers.txt
	$(call quietly,$(DEEP),Installing other deep agents into $(DEEP) (once) ...,{ $(call MAKE_VENV,$(DEEP)); } && { $(call INSTALL,$(DEEP),-r requirements/deep-peers.txt); })
	@touch $@

setup: $(VENV)/.ready ## Make .venv with the package (editable) and all tools

# -------------------------------------------------------------------------------------------------------------- jobs

demo: $(VENV)/.runtime ## Serve an office whose agents wait for you: a server, a worker, two people; ARGS=--terminal
	@$(BIN)/keyturn demo $(ARGS)

# The checks run beside one another; those of `shape` are among the tests. All tests are collected in one process, which
# forks the workers (tests/forking.py). What takes long is marked `trial` and runs in `make sweep` and
# `make trials` only; of the ways to run, the stores and the kinds of tools each test takes one in turn (tests/ways.py).
test: $(VENV)/.ready $(VENV)/.system ## Run the checks, then the tests
	@$(MAKE) --no-print-directory -j $(JOBS) quick-types lint imports
	@$(BIN)/python -m pytest --forks $(WORKERS) -q --durations=10 $(ARGS) || { \
	  echo "Some failed. Tests that drive a real terminal feel a busy machine: those once more, alone:" >&2; \
	  $(BIN)/python -m pytest -q --last-failed --last-failed-no-failures none $(ARGS); }

check: lint types imports shape ## Lint, format, strict types, import contracts, sizes, exports

lint: $(VENV)/.ready
	@$(BIN)/ruff check --quiet
	@$(BIN)/ruff format --check --quiet || { echo "not formatted: make format" >&2; exit 1; }

# What was found right is right until a file of it, or a folder that had one, is another. `make test` has types checked by
# pyrefly, which takes 8 s; the strict check by pyright takes a minute, and `make check` and `make trials` begin with it.
TYPED = pyproject.toml tests/types.py tests/typing_door.py $(shell find src examples -not -name '*.pyc' -not -name __pycache__)
types: $(VENV)/.typed
$(VENV)/.typed: $(VENV)/.ready $(TYPED)
	@$(BIN)/python -m tests.types
	@touch $@

quick-types: $(VENV)/.typed-quickly
$(VENV)/.typed-quickly: $(VENV)/.ready $(TYPED)
	@$(BIN)/python -m tests.types --quick
	@touch $@

imports: $(VENV)/.ready
	@$(BIN)/lint-imports --no-logo

shape: $(VENV)/.ready
	@$(BIN)/python -m pytest -q tests/test_shape.py tests/test_architecture.py tests/test_exports.py

format: $(VENV)/.ready ## Format, and mend what the linter can mend
	@$(BIN)/ruff check --fix --quiet || true
	@$(BIN)/ruff format --quiet

kinds: $(VENV)/.ready ## Every kind of tool against every promise; ARGS=--kinds-into=docs/kinds.md writes the manual
	@$(BIN)/python -m pytest -m "" -p keyturn.testing.suites.tool_table -n $(JOBS) -q tests/tools tests/mcp $(ARGS)

previews: $(VENV)/.ready ## Capture what people are shown of each kind of call: docs/previews.md
	@$(BIN)/python docs/previews.py

pictures: $(VENV)/.ready $(VENV)/.system ## Take pictures of every page in the states that matter: build/pictures/sheet.png; ARGS=--manual
	@$(BIN)/python -m tests.server.pictures $(ARGS)

probes: $(VENV)/.ready ## Try what strangers try against the server, and write what came back: docs/probes.md
	@$(BIN)/python -m tests.server.probes

strings: $(VENV)/.ready ## Every text of the source that users see, with its place: ARGS=chat, ARGS="command line"
	@$(BIN)/python -m tests.strings $(ARGS)

site: $(VENV)/.ready ## Build the website of the manual and the reference: build/site; broken links fail
	@$(BIN)/python docs/site/make_site.py

package: $(VENV)/.ready ## Build dist/, and try what was built in an environment of its own
	@rm -rf dist && $(BIN)/python -m hatchling build -d dist
	@$(BIN)/python -m pytest -q -m "" tests/packaging $(ARGS)

bench: $(VENV)/.runtime ## Measure Keyturn beside a hand-written floor, and beside the peers if installed
	@DEEP_PYTHON="$(DEEP_PYTHON)" $(BIN)/python -m benchmarks $(ARGS)

REV ?= 37e2322
bench-doors: $(VENV)/.ready ## What a request from outside costs, beside a floor of the same moment: ARGS="--many 300"
	@$(BIN)/python -m benchmarks.doors $(ARGS)

bench-against: $(VENV)/.runtime ## This tree beside another commit, on processor time and counts: REV=37e2322 ARGS="--repeat 9 --write"
	@$(BIN)/python -m benchmarks.against $(REV) $(ARGS)

apart: $(VENV)/.runtime ## Where the processor time of a turn, cycle or round goes, beside another commit: SHAPE=cycle REV=37e2322 ARGS="--most 20"
	@$(BIN)/python -m benchmarks.apart $(SHAPE) $(REV) $(ARGS)

counts: $(VENV)/.runtime ## What the standard shapes of work ask of the store, sync, write and call: ARGS=--write, ARGS="--where cycle"
	@$(BIN)/python -m benchmarks.counts $(ARGS)

bench-peers: $(PEERS)/.ready ## Install the peers that `make bench` compares with, apart from everything else

deep-peers: $(DEEP)/.ready ## Install the deep agents that `make bench` and `make leaks` compare with, apart as well

COUNT   ?= 1000
SEED    ?= random
TIMEOUT ?= 1800
sweep: $(VENV)/.ready ## The tests marked trial or sweep, at length: make sweep COUNT=20000 SEED=7 TIMEOUT=3600 JOBS=2
	@KEYTURN_SWEEP=$(COUNT) $(BIN)/python -m pytest -m "trial or sweep" --forks $(JOBS) -q --timeout=$(TIMEOUT) \
	  --hypothesis-profile=sweep --hypothesis-seed=$(SEED) --durations=10 $(ARGS)

trials: $(VENV)/.ready $(VENV)/.system types ## Every trial at length, before a release; writes docs/reliability.md: make trials KILLS=10000 N=10000 SEEDS=100000
	@$(BIN)/python -m trials --kills $(KILLS) --n $(N) --seeds $(SEEDS) --states $(STATES) --count $(COUNT) --jobs $(JOBS) \
	  $(if $(filter-out random,$(SEED)),--seed $(SEED)) $(ARGS)

costs: $(VENV)/.ready ## What the tests cost in processor time, by room, file and test
	@$(BIN)/python -m tests.costs $(ARGS)

pace: $(VENV)/.ready ## How fast the durable parts are here: cycles a second, and a decision's way to its tool
	@$(BIN)/python -m trials.pace $(ARGS)

pile: $(VENV)/.ready ## A million open requests: how long a page of them takes
	@$(BIN)/python -m trials.pile $(ARGS)

RUNS ?= 1000
recovery: $(VENV)/.ready ## Kill -9 with all that many runs in flight: how long until each is classified
	@$(BIN)/python -m trials.recovery --runs $(RUNS) $(ARGS)

mutants: $(VENV)/.ready ## Break the gate on purpose, law by law, and see each broken build caught: ARGS=--whole
	@$(BIN)/python -m trials.mutants $(ARGS)

coding-agents: ## The coding agents that the hooks are tried with, from npm: then pytest -m "trial or not trial" tests/hooks tests/acp_gate runs them
	@mkdir -p $(VENV)/agents && cp tests/hooks/package.json $(VENV)/agents/ && cd $(VENV)/agents && npm install --no-audit --no-fund --no-package-lock --silent

model-servers: ## Servers of model APIs that others wrote, from npm and PyPI: then pytest tests/models/servers asks them
	@{ $(call MAKE_VENV,$(VENV)/servers); } && { $(call INSTALL,$(VENV)/servers,-r requirements/model-servers.txt); }
	@cp tests/models/servers/package.json $(VENV)/servers/ && cd $(VENV)/servers && npm install --no-audit --no-fund --no-package-lock --silent

aap-adapters: ## The frameworks whose AAP adapters are tried, in two environments of their own: then pytest -m trial tests/server/aap runs them
	$(call quietly,$(VENV)/aap,Installing the frameworks into $(VENV)/aap ...,{ $(call MAKE_VENV,$(VENV)/aap); } && { $(call INSTALL,$(VENV)/aap,-r requirements/aap.txt); })
	$(call quietly,$(VENV)/aap-crewai,Installing CrewAI into $(VENV)/aap-crewai ...,{ $(call MAKE_VENV,$(VENV)/aap-crewai); } && { $(call INSTALL,$(VENV)/aap-crewai,-r requirements/aap-crewai.txt); })

SEEDS   ?= 1000
FROM    ?= 0
simulate: $(VENV)/.ready ## The real engine in a made world, seed after seed: make simulate SEEDS=100000 FROM=0 JOBS=2
	@$(BIN)/python -m trials.simulate --seeds $(SEEDS) --from $(FROM) --jobs $(JOBS) $(ARGS)

STATES ?= 100000
DEPTH  ?= 99
explore: $(VENV)/.ready ## Every order of small worlds, walked to their end: make explore STATES=10000000 DEPTH=30 JOBS=2; ARGS=--mutants
	@$(BIN)/python -m trials.explore --states $(STATES) --depth $(DEPTH) --jobs $(JOBS) $(if $(filter-out random,$(SEED)),--seed $(SEED)) $(ARGS)

KILLS ?= 1000
crash: $(VENV)/.ready $(VENV)/.system ## Kill -9 at every write and message, then settle and check: make crash KILLS=10000 SEED=7
	@$(BIN)/python -m trials.crash --kills $(KILLS) --jobs $(JOBS) $(if $(filter-out random,$(SEED)),--seed $(SEED)) $(ARGS)

MINUTES ?= 10
ENGINE  ?= journal
soak: $(VENV)/.ready $(VENV)/.system ## A fleet under kills, standstills and crashes of its database: make soak MINUTES=10 ENGINE=journal|dbos|temporal SEED=7
	@$(BIN)/python -m trials.soak --minutes $(MINUTES) --engine $(ENGINE) $(if $(filter-out random,$(SEED)),--seed $(SEED)) $(ARGS)

RUNS_EACH ?= 300
load: $(VENV)/.ready $(VENV)/.system ## What a cycle costs as a fleet grows: make load RUNS_EACH=300 ARGS="--workers 1 2 4 --pending 0 100000"
	@$(BIN)/python -m trials.load --runs $(RUNS_EACH) $(ARGS)

N ?= 1000
race: $(VENV)/.ready $(VENV)/.system ## Many go for one run or one request at once: make race N=10000 SEED=7
	@$(BIN)/python -m trials.race --n $(N) --jobs $(JOBS) $(if $(filter-out random,$(SEED)),--seed $(SEED)) $(ARGS)

rot: $(VENV)/.ready $(VENV)/.system ## Alter stores behind their backs, and see it refused or reported: make rot N=10000 SEED=7 JOBS=2
	@$(BIN)/python -m trials.rot --n $(N) --jobs $(JOBS) $(if $(filter-out random,$(SEED)),--seed $(SEED)) $(ARGS)

forge: $(VENV)/.ready ## Forge states, lines, rows and decisions, with and without a key: make forge N=10000 SEED=7 JOBS=2
	@$(BIN)/python -m trials.forge --n $(N) --jobs $(JOBS) $(if $(filter-out random,$(SEED)),--seed $(SEED)) $(ARGS)

signatures: $(VENV)/.ready ## Forge signatures, and move true ones: make signatures N=10000 SEED=7
	@$(BIN)/python -m trials.signatures --n $(N) $(if $(filter-out random,$(SEED)),--seed $(SEED)) $(ARGS)

texts: $(VENV)/.ready ## Call every function of texts at two lengths, and see whose time grows with the square: ARGS="--only keyturn.presenting"
	@$(BIN)/python -m trials.texts $(ARGS)

LIMIT ?= 120
first-decision: $(VENV)/.ready $(VENV)/.system ## From a clone to the first decision in a browser, by the README alone: LIMIT=120 ARGS=--cold
	@$(BIN)/python -m trials.first_decision --limit $(LIMIT) $(ARGS)

first-command: $(VENV)/.ready $(VENV)/.system ## From pip install to a command of Claude Code approved on a phone (make coding-agents before): ARGS=--cold
	@$(BIN)/python -m trials.first_command $(ARGS)

DEEP_PYTHON ?= $(if $(wildcard $(DEEP)/bin/python),$(DEEP)/bin/python)
leaks: $(VENV)/.ready ## Ways round the gate of other deep agents, shown on them beside ours: make leaks DEEP_PYTHON=path
	@$(BIN)/python -m trials.leaks --theirs "$(DEEP_PYTHON)" $(ARGS)

audit-trial: $(VENV)/.ready ## Alter exports of the audit in every way, and see each alteration located: make audit-trial N=10000 SEED=7
	@$(BIN)/python -m trials.audit --n $(N) $(if $(filter-out random,$(SEED)),--seed $(SEED)) $(ARGS)

alike: $(VENV)/.ready $(PEERS)/.ready ## Random programs, run by the OpenAI Agents SDK and here after an import change: make alike N=3000 ARGS="--from 5000"
	@$(BIN)/python -m trials.alike --there $(PEERS)/bin/python --n $(N) $(ARGS)

EXAMPLES ?=
published: $(VENV)/.ready ## Programs published for the OpenAI Agents SDK, one word changed: make published EXAMPLES=path
	@test -d "$(EXAMPLES)" || { echo "say where the folder is: make published EXAMPLES=openai_agents-0.24.0/examples" >&2; exit 1; }
	@$(BIN)/python -m trials.published "$(EXAMPLES)" --jobs $(JOBS) $(ARGS)

# -------------------------------------------------------------------------------------------------------------- care

COMPILE = uv pip compile --quiet --upgrade --universal --python-version 3.11 --no-header --no-annotate \
  --no-emit-index-url --no-emit-find-links
lock: $(VENV)/.runtime ## Compile requirements/*.in anew: pins for every supported Python, no index named
	@command -v uv >/dev/null || test -x $(BIN)/uv || $(call PIP,$(VENV)) uv
	@export PATH="$$PATH:$(abspath $(BIN))" UV_PYTHON_DOWNLOADS=never; \
	$(COMPILE) --python $(BIN)/python pyproject.toml requirements/dev.in -o requirements/dev.txt && \
	$(COMPILE) --python $(BIN)/python requirements/peers.in -o requirements/peers.txt

clean: ## Remove caches and build products
	@rm -rf build dist .pytest_cache .ruff_cache .hypothesis .import_linter_cache .coverage
	@find src tests benchmarks examples -name __pycache__ -type d -prune -exec rm -rf {} + 2>/dev/null || true

distclean: clean ## Remove the environments as well
	@rm -rf $(VENV) $(PEERS) $(DEEP)
