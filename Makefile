VENV := .venv
PYTHON ?= python3
BIN := $(VENV)/bin
RUNTIME := $(VENV)/.runtime
DEV := $(VENV)/.dev
IMAGE ?= skillgate-base:bookworm-2

UV := uv==0.13.9

.PHONY: agents local-model demo screenshot test coverage format lock clean

demo: $(RUNTIME)
	$(BIN)/skillgate demo --out skillgate-demo $(if $(SCENARIO),--scenario $(SCENARIO))

test: $(DEV)
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/python -m pytest -n 2 $(PYTEST_ARGS)

agents: $(RUNTIME)
	$(BIN)/skillgate agents install claude-code codex gemini opencode

local-model: $(RUNTIME)
	$(BIN)/python benchmarks/local_model.py -- $(BIN)/skillgate run --config benchmarks/local-model/skillgate.yml \
	  --skill benchmarks/local-model/smallsteps-style --image $(IMAGE) --out skillgate-local-model || test $$? -eq 1
	$(BIN)/python benchmarks/local_model.py --page skillgate-local-model/report.json > docs/local-model-run.md

screenshot: $(DEV)
	$(BIN)/skillgate demo --out skillgate-demo
	$(BIN)/python benchmarks/screenshot.py skillgate-demo/comment.md docs/comment.png

coverage: $(DEV)
	$(BIN)/coverage run -m pytest
	$(BIN)/coverage combine
	$(BIN)/coverage report

format: $(DEV)
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

# What action.yml installs: one version of each package for all Pythons, with the hashes of its files. Pins that
# still fit stay as they are; LOCK_ARGS=--upgrade moves them.
lock: $(VENV)/bin/python
	$(BIN)/pip install --quiet --disable-pip-version-check $(UV)
	$(BIN)/uv pip compile --quiet --universal --python-version 3.11 --fork-strategy fewest --no-build \
	  --generate-hashes --no-annotate --custom-compile-command "make lock" \
	  --output-file requirements.lock $(LOCK_ARGS) pyproject.toml

$(VENV)/bin/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "Python 3.11 or newer is needed; set PYTHON=" >&2; exit 1; }
	$(PYTHON) -m venv $(VENV)

$(RUNTIME): pyproject.toml $(VENV)/bin/python
	$(BIN)/pip install --quiet --disable-pip-version-check --editable .
	touch $@

$(DEV): pyproject.toml $(VENV)/bin/python
	$(BIN)/pip install --quiet --disable-pip-version-check --editable '.[dev]'
	touch $@ $(RUNTIME)

clean:
	rm -rf $(VENV) skillgate-demo skillgate-local-model
