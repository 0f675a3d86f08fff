VENV := .venv
PYTHON ?= python3
BIN := $(VENV)/bin
RUNTIME := $(VENV)/.runtime
DEV := $(VENV)/.dev
IMAGE ?= skillgate-base:bookworm-2

.PHONY: agents local-model demo screenshot test coverage format clean

demo: $(RUNTIME)
	$(BIN)/skillgate demo --out skillgate-demo $(if $(SCENARIO),--scenario $(SCENARIO))

screenshot: $(DEV)
	$(BIN)/skillgate demo --out skillgate-demo
	$(BIN)/python benchmarks/screenshot.py skillgate-demo/comment.md docs/comment.png

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

coverage: $(DEV)
	$(BIN)/coverage run -m pytest
	$(BIN)/coverage combine
	$(BIN)/coverage report

format: $(DEV)
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

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
