PYTHON ?= python3
BIN := .venv/bin
# Written last, so that an install that failed half-way is begun again.
STAMP := .venv/.installed

export PIP_DISABLE_PIP_VERSION_CHECK := 1

.PHONY: help venv climb test lab constraints clean
.DEFAULT_GOAL := help

help:
	@echo "make climb   set up, then climb the ladder: every step checked on this machine"
	@echo "make test    set up, then run the tests (those that need a Hopper GPU skip where there is none)"
	@echo "make lab     set up, then open the notebooks in JupyterLab"
	@echo "make venv    only set up .venv; PYTHON=python3.12 names another Python"
	@echo "make clean   remove .venv and what builds left behind"

climb: venv
	@$(BIN)/course climb

test: venv
	@$(BIN)/python -m pytest -q

lab: venv
	@$(BIN)/jupyter lab notebooks/ $$(test "$$(id -u)" != 0 || echo --allow-root)  # root: in a container

venv: $(STAMP)

# A finished .venv is brought up to changed pins in place; an unfinished one, or one not ours, is made anew.
$(STAMP): pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(not (3, 11) <= sys.version_info < (3, 15))' || { \
	  echo "This course needs Python 3.11 to 3.14 (the pinned packages have no build for a newer one), and $(PYTHON) is not." \
	    "Name one: make venv PYTHON=python3.12" >&2; exit 1; }
	@test "$$(uname -s)" = Linux || { \
	  echo "This course needs Linux (WSL or a container will do): the CUDA packages have no build for $$(uname -s)." >&2; exit 1; }
	@test -e $@ || $(PYTHON) -m venv --clear .venv
	@rm -f $@
	@echo "Setting up .venv: a few minutes the first time."
	@$(BIN)/pip install -q -e '.[test]' -c constraints.txt
	@touch $@

# After a change of pins: write down again what they pull in. With the oldest Python we support, because what has a
# version for that one has it for the newer ones. torch names its own CUDA packages to the digit: they are left out.
constraints:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info[:2] != (3, 11))' || { echo "make constraints needs Python 3.11" >&2; exit 1; }
	@$(PYTHON) -m venv --clear build/pins
	@build/pins/bin/pip install -q -e '.[test]'
	@mkdir -p build && grep -oE '"[A-Za-z0-9-]+==' pyproject.toml | tr -d '"' | grep -v '^setuptools==' | sed 's/^/^/' > build/direct
	@{ echo "# What the packages pinned in pyproject.toml pull in. Written by make constraints; not edited by hand."; \
	  build/pins/bin/pip list --format=freeze --exclude-editable --exclude pip | tr 'A-Z_' 'a-z-' \
	  | grep -vf build/direct | grep -vE '^(triton|cuda-toolkit|nvidia-.*)==' | LC_ALL=C sort; } > constraints.txt

clean:
	@rm -rf .venv build *.egg-info .pytest_cache .ruff_cache .hypothesis
	@find . -name __pycache__ -type d -prune -exec rm -rf {} +
