PYTHON ?= python3
BIN := .venv/bin
# One .venv whose packages grow: a learner's, then what the tests, a class and the linters need on top. Each stamp is
# written last, so that an install that failed half-way is begun again.
LAB := .venv/.lab
ALL := .venv/.all

export PIP_DISABLE_PIP_VERSION_CHECK := 1

.PHONY: help venv climb test thorough lab site lint lock clean
.DEFAULT_GOAL := help

help:
	@echo "make climb   set up, then climb the ladder: every step checked on this machine"
	@echo "make lab     set up, then open the notebooks in JupyterLab"
	@echo "make test    set up, then run the tests (those that need a Hopper GPU skip where there is none)"
	@echo "make thorough all tests: those too of which make test has some of each kind"
	@echo "make site    set up, then run all notebooks and build the site: build/site/html/index.html"
	@echo "make lint    set up, then look at the code's form, its types, which room imports which, and the prose"
	@echo "make venv    only set up .venv; PYTHON=python3.12 names another Python"
	@echo "make lock    after a change of pyproject.toml: write requirements.lock and environment.yml"
	@echo "make clean   remove .venv and what builds left behind"

climb: venv
	@$(BIN)/course climb

lab: venv
	@$(BIN)/course lab

# Compiled kernels stay for the next run; what changes a kernel, or the course's compilers, compiles it anew.
test thorough: export COURSE_TEST_CACHE ?= $(CURDIR)/build/test-cache

test: $(ALL)
	@$(BIN)/python -m pytest -q

thorough: $(ALL)
	@$(BIN)/python -m pytest -q --thorough

site: $(ALL)
	@$(BIN)/python -m authoring.site.build --repository '$(REPOSITORY)'

lint: $(ALL)
	@$(BIN)/ruff check -q
	@$(BIN)/ruff format -q --check
	@$(BIN)/mypy
	@$(BIN)/lint-imports --no-cache
	@$(BIN)/python -m authoring.prose

venv: $(LAB)

# A finished .venv is brought up to a changed lock in place; an unfinished one, or one not ours, is made anew.
# $(1): the extras to install.
define install
	@$(PYTHON) -c 'import sys; sys.exit(not (3, 11, 5) <= sys.version_info < (3, 15))' || { \
	  echo "This course needs Python 3.11.5 to 3.14 (the locked packages have no build for another), and $(PYTHON) is not." \
	    "Name one: make venv PYTHON=python3.12" >&2; exit 1; }
	@test "$$(uname -s)" = Linux || { \
	  echo "This course needs Linux (WSL or a container will do): the CUDA packages have no build for $$(uname -s)." >&2; exit 1; }
	@test -e $(LAB) || $(PYTHON) -m venv --clear .venv
	@rm -f $(LAB) $(ALL)
	@echo "Setting up .venv: a few minutes the first time."
	@$(BIN)/pip install -q -e '.[$(1)]' -c requirements.lock
endef
comma := ,

$(LAB): pyproject.toml requirements.lock
	$(call install,lab)
	@touch $(LAB)

# nbgrader's menus are for teachers: where learners may open JupyterLab from the same .venv they stay off.
$(ALL): pyproject.toml requirements.lock
	$(call install,lab$(comma)teach$(comma)site$(comma)test)
	@$(BIN)/jupyter labextension disable --level=sys_prefix --log-level=ERROR @jupyter/nbgrader
	@touch $(LAB) $(ALL)

# Versions stay where they are while pyproject.toml allows it: UPGRADE=--upgrade moves all, UPGRADE='-P rich' one. The
# lock is for the oldest Python we support, because what has a version for that one has it for the newer ones.
lock:
	@test -x build/lock/bin/uv || { $(PYTHON) -m venv --clear build/lock && build/lock/bin/pip install -q uv -c requirements.lock; }
	@build/lock/bin/uv pip compile -q pyproject.toml --extra lab --extra teach --extra ray --extra site --extra test --python-version 3.11.5 \
	  --python-platform linux --custom-compile-command "make lock" $(UPGRADE) -o requirements.lock
	@$(PYTHON) -m authoring.environment

clean:
	@rm -rf .venv build *.egg-info .pytest_cache .ruff_cache .mypy_cache .hypothesis
	@find . -name __pycache__ -type d -prune -exec rm -rf {} +
