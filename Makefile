# Two commands set up everything: `make demo` and `make test`.
PYTHON ?= python3
VENV   ?= .venv
BIN    := $(VENV)/bin
OLDEST ?= .venv-oldest

# Tests that start no process and take seconds.
QUICK  := tests/common/test_text.py tests/common/test_this_machine.py tests/analysis/expressions tests/planning/placement tests/stories \
          tests/execution/strategies

# Compiled modules are kept: without them every start of a worker compiles the whole package again.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: demo test test-oldest check deep fuzz docs schema benchmarks clean

demo: $(VENV)/.installed
	$(BIN)/cenote demo --out demo-out
	@echo "The command is $(BIN)/cenote; \`. $(BIN)/activate\` makes it \`cenote\` in this shell."

test: $(VENV)/.installed-dev
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/pytest -n 5 --dist loadgroup --no-loadscope-reorder

# The same tests with the lowest versions that pyproject.toml allows, but for live ones and those of what is generated,
# which newer versions wrote. Packages that these need in turn are the newest: nothing is built from source.
test-oldest: $(OLDEST)/.installed
	$(OLDEST)/bin/cenote demo --out demo-out
	$(OLDEST)/bin/pytest -n 5 --dist loadgroup --no-loadscope-reorder -m "not live" \
		--ignore=tests/docs --ignore=tests/language/test_the_committed_schema_is_true.py

# For while you work: under a minute.
check: $(VENV)/.installed-dev
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/pytest -q -n 2 $(QUICK)

# Randomised tests with many more cases: mutated workflows, simulated schedules, properties. About an hour.
deep: $(VENV)/.installed-dev
	CENOTE_DEEP_TESTS=1 $(BIN)/pytest -n 2 --dist loadgroup --no-loadscope-reorder -m "not live"

# Odd workflows and expressions for as long as wanted: `make fuzz SECONDS=3600`. Findings become cases of the tests.
SECONDS ?= 600
fuzz: $(VENV)/.installed-dev
	PYTHONPATH=tests $(BIN)/python -m fuzzing --seconds $(SECONDS)

# The table of benchmarks/README.md, measured anew: `make benchmarks ROWS="narrow wide"` for some of it.
benchmarks: $(VENV)/.installed-dev
	$(BIN)/python benchmarks/measure.py --keep $(ROWS)

# Generated files: the JSON Schema and the reference pages. Tests compare them with what is committed.
docs: $(VENV)/.installed-dev
	$(BIN)/cenote schema --output schema/cenote.schema.json
	$(BIN)/cenote schema --of profile --output schema/cenote-profile.schema.json
	$(BIN)/cenote schema --of site --output schema/cenote-site.schema.json
	$(BIN)/python docs/generate.py

$(VENV)/.installed: pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
		{ echo "Cenote needs Python 3.11 or newer: make $(MAKECMDGOALS) PYTHON=/path/to/python3.11"; exit 2; }
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[ml]'
	@touch $@

$(VENV)/.installed-dev: $(VENV)/.installed
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev,all]'
	@touch $@

$(OLDEST)/.installed: pyproject.toml $(VENV)/.installed-dev
	$(BIN)/uv venv --quiet --clear --python $(BIN)/python $(OLDEST)
	$(BIN)/uv pip install --quiet --python $(OLDEST)/bin/python --resolution lowest-direct \
		--only-binary :all: --no-binary cenote -e '.[dev,all]'
	@touch $@

clean:
	rm -rf $(VENV) $(OLDEST) demo-out out .mypy_cache .ruff_cache .pytest_cache .hypothesis
