# Everything here works on a fresh machine with Python 3.11+ and make.
PYTHON ?= python3
STEPS ?= 14
BIN := .venv/bin
PYTEST := $(BIN)/python -m pytest --numprocesses 2 --dist loadfile --no-loadscope-reorder

.DEFAULT_GOAL := help
.PHONY: help pretrain test test-slow test-readme test-engines test-lowest quality style docs figures notebooks wheel clean

help: ## Show this list
	@grep -E '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "  make %-13s %s\n", $$1, $$2}'

.venv/package: setup.cfg pyproject.toml constraints.txt
	$(PYTHON) -m venv .venv
	$(BIN)/pip install --quiet "$$(grep '^torch==' constraints.txt)"
	$(BIN)/pip install --quiet --constraint constraints.txt --editable .
	touch $@

.venv/installed: .venv/package
	$(BIN)/pip install --quiet --constraint constraints.txt --editable ".[dev]"
	touch $@

pretrain: .venv/package ## Pretrain the included encoder on the documentation of installed packages, then classify that with five labels
	$(BIN)/accelerate launch examples/run_pretrain.py \
		--dataset_name documentation --max_steps $(STEPS) --output_dir output/pretrain --overwrite_output_dir
	$(BIN)/python examples/few_labels.py --model_name_or_path output/pretrain

test: .venv/installed ## Run the tests of every change, in a few minutes
	$(PYTEST) -m "not slow"

test-slow: .venv/installed ## Run the tests that take long, and those of hypothesis with many new examples
	$(PYTEST) -m "slow or hypothesis" --hypothesis-profile many

test-readme: ## Run each block of the README, in order, in a new environment (TORCH="torch==2.13.0" installs this torch first)
	$(PYTHON) tests/run_readme.py $(if $(TORCH),--torch "$(TORCH)")

test-engines: .venv/installed ## Run the tests of Slurm and Ray, which it installs (Slurm as root)
	[ "$$(id -u)" != 0 ] || apt-get install -qq -y --no-install-recommends slurm-wlm munge
	$(BIN)/pip install --quiet --constraint constraints.txt "ray[default] >= 2.60"
	$(BIN)/python -m pytest -s tests/engines

test-lowest: ## Try the lowest version of each requirement, in .venv-lowest (on Linux up to 6 GB, as old torch brings CUDA)
	$(PYTHON) -m venv .venv-lowest
	$(PYTHON) tests/lowest/requirements.py > .venv-lowest/lowest.txt
	.venv-lowest/bin/pip install --quiet --constraint .venv-lowest/lowest.txt --editable .
	.venv-lowest/bin/python tests/lowest/journey.py .venv-lowest/lowest.txt

quality: .venv/installed ## Check style, and that imports run one way
	$(BIN)/lint-imports
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

style: .venv/installed ## Mend style
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

docs: .venv/installed ## Build the documentation into site/ (open site/index.html); a warning is an error
	NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --strict --quiet

figures: .venv/installed ## Write the figures of README.md and docs/ anew from their records
	$(BIN)/python -m docs.figures

notebooks: .venv/installed ## Execute the notebooks of the examples anew
	$(BIN)/python examples/notebooks/execute.py examples/notebooks/*.ipynb

wheel: .venv/installed ## Build the wheel into dist/
	$(BIN)/python -m build --wheel

clean: ## Remove the environment, builds and outputs
	rm -rf .venv .venv-lowest build dist output site *.egg-info
