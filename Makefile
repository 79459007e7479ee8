# Everything is built from a C++ compiler, make and PyPI; see CONTRIBUTING.md.
SHELL := /bin/bash -o pipefail
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.PHONY: help install plugin demo test test-root test-slow test-asan test-tsan test-sanitized verbs-test fuzz soak nightly lint format
.PHONY: gpu-test random-programs bench docs clean grpc grpc-programs grpc-test tools wheels release

PYTHON ?= python3
JOBS ?= $(shell nproc)
# The Python tests wait for other processes more than half of their time.
TEST_JOBS ?= $(shell expr 2 \* $(JOBS))
VENV := .venv
export PATH := $(CURDIR)/$(VENV)/bin:$(PATH)
export CMAKE_BUILD_PARALLEL_LEVEL := $(JOBS)

# Everything that is compiled here goes through a cache, which other clones share: paths in the
# checkout count as relative. Without a writable folder for it, everything is compiled. CMake and
# Ninja need a launcher whose path has no blank.
CACHE := $(or $(XDG_CACHE_HOME),$(HOME)/.cache)/farwrite/ccache
ifeq ($(words $(CURDIR)),1)
export CMAKE_CXX_COMPILER_LAUNCHER ?= $(CURDIR)/$(VENV)/bin/ccache
endif
export CCACHE_DIR ?= $(CACHE)
export CCACHE_MAXSIZE ?= 3G
export CCACHE_BASEDIR ?= $(CURDIR)
export CCACHE_NOHASHDIR ?= 1
ifneq ($(shell { mkdir -p '$(CCACHE_DIR)' && find '$(CCACHE_DIR)' -maxdepth 1 ! -writable; } 2>&1),)
export CCACHE_DISABLE := 1
endif

comma := ,
say = @printf '\033[1m%s\033[0m\n' "$(1)"

CORE_SOURCES := $(shell find cmake include src -type f) CMakeLists.txt pyproject.toml
sources_of = $(shell find $(1) -type f -not -name '*.pyc')
CXX_FILES := $(shell find include src bench experiments tests examples -name '*.h' -o -name '*.cc' -o -name '*.c')
PYTHON_FILES := python bench demo experiments plugin grpc tests tools examples docs/conf.py docs/_ext

help: ## Print the targets
	@sed -nE 's/^([a-z-]+):.*## (.*)/  \1\t\2/p' $(MAKEFILE_LIST) | expand -t 14

install: $(VENV)/.installed ## Build farwrite, its demo, benchmarks and experiments and install them into .venv
	@:

# Without the benchmarks, which take a minute more to compile. The race needs no TensorFlow, so it
# runs while that is fetched.
demo: $(VENV)/.demo ## Race four ways to hand an array over, then train with gRPC and with Farwrite
	@$(MAKE) -s $(VENV)/.tensorflow & fetching=$$!; \
	trap 'kill $$fetching 2>/dev/null; wait' EXIT; \
	$(VENV)/bin/farwrite demo && wait $$fetching && $(VENV)/bin/farwrite demo training

bench: install ## Measure every size between two processes, into out/bench/p2p.json
	@mkdir -p out/bench
	$(VENV)/bin/farwrite bench p2p --fabric shm --json out/bench/p2p.json

# The tools, pinned in pyproject.toml. --group needs a newer pip than Python brings along.
$(VENV)/.tools: pyproject.toml
	$(call say,install: tools into $(VENV))
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
		|| { echo "Farwrite needs Python 3.11 or newer; run make PYTHON=python3.x" >&2; exit 1; }
	@test -x $(VENV)/bin/python || $(PYTHON) -m venv $(VENV)
	@$(VENV)/bin/python -m pip install -q --disable-pip-version-check 'pip>=25.1,<27'
	@$(VENV)/bin/python -m pip install -q --disable-pip-version-check --group install
	@touch $@

# What checks the code; its own stamp, because it is as large as all that `make install` needs.
$(VENV)/.dev: $(VENV)/.tools
	$(call say,install: pytest and linters into $(VENV))
	@$(VENV)/bin/python -m pip install -q --disable-pip-version-check --group dev
	@touch $@

tools: $(VENV)/.dev ## Install pytest and the linters into .venv, as every target that needs them does
	@:

$(VENV)/.demo: $(VENV)/.tools $(CORE_SOURCES) python/CMakeLists.txt \
		$(call sources_of,python/farwrite demo) | .cache/.verbs_headers
	$(call say,install: build farwrite and its demo (minutes at first$(comma) then only what changed))
	@tools/install_package.sh $(VENV) farwrite demo
	@touch $@

$(VENV)/.installed: $(VENV)/.demo $(call sources_of,bench experiments)
	$(call say,install: build the benchmarks and the experiments)
	@$(VENV)/bin/python -m pip install -q --disable-pip-version-check --group bench
	@tools/install_package.sh $(VENV) bench experiments
	@touch $@

# What the plug-in is built against, and the demo's data; its own stamp, because it is large.
$(VENV)/.tensorflow: $(VENV)/.tools
	$(call say,install: TensorFlow into $(VENV))
	@$(VENV)/bin/python -m pip install -q --disable-pip-version-check --group tensorflow
	@touch $@

# For the tests of the box's PyTorch adapter. The constraint admits CPU wheels alone, so that pip
# never downloads CUDA's packages. Without such a wheel the tests are skipped.
$(VENV)/.torch: $(VENV)/.tools tools/torch_cpu.txt
	$(call say,install: PyTorch into $(VENV))
	@if $(VENV)/bin/python -m pip install -q --disable-pip-version-check --group torch \
		--constraint tools/torch_cpu.txt; then touch $@; \
	else echo "install: pip finds no CPU wheel of PyTorch, so no tests of its adapter" >&2; fi

# What builds the site; its own stamp, because only `make docs` needs it.
$(VENV)/.docs: $(VENV)/.tools
	$(call say,install: Sphinx into $(VENV))
	@$(VENV)/bin/python -m pip install -q --disable-pip-version-check --group docs
	@touch $@

docs: install $(VENV)/.docs ## Build the documentation site into out/site
	$(call say,docs: site)
	@tools/build_site.sh $(VENV)

# The plug-in, the library of the experiments, and the device of the tests.
COMPILE_FOR_TENSORFLOW := farwrite tensorflow build \
	&& python -c 'from farwrite_experiments.library import ensure_built; ensure_built()' \
	&& python tests/python/tensorflow/device_library.py

plugin: install $(VENV)/.tensorflow ## Compile the TensorFlow plug-in, the experiments' library and the tests' device, into the cache
	@$(COMPILE_FOR_TENSORFLOW)

# Headers alone; where they are missing, the build goes on without the verbs fabric.
.cache/.verbs_headers: tools/fetch_debs.sh
	@mkdir -p $(@D)
	@if tools/fetch_debs.sh libibverbs-dev:usr/include/infiniband/verbs.h \
		librdmacm-dev:usr/include/rdma/rdma_cma.h; then touch $@; \
	else echo "install: no headers of libibverbs and librdmacm, so no verbs fabric" >&2; fi

.cache/.googletest: tools/fetch_debs.sh
	@tools/fetch_debs.sh googletest:usr/src/googletest/googletest/include/gtest/gtest.h
	@mkdir -p $(@D) && touch $@

# Names of single wheels, such as cp311-aarch64; none means all of x86_64. PYTHONS names interpreters.
WHEELS ?=

wheels: .cache/.verbs_headers ## Build wheels for other systems into out/wheels, with PyPI's compiler zig
	$(call say,wheels: compile (minutes at first$(comma) then what changed))
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
		|| { echo "make wheels needs Python 3.11 or newer; run make PYTHON=python3.x wheels" >&2; exit 1; }
	@$(PYTHON) tools/build_wheels.py $(WHEELS)

# What collects a release; its own stamp, because only `make release` needs it.
$(VENV)/.release: $(VENV)/.tools
	$(call say,install: tools for releases into $(VENV))
	@$(VENV)/bin/python -m pip install -q --disable-pip-version-check --group release
	@touch $@

release: install .cache/.verbs_headers $(VENV)/.tensorflow $(VENV)/.release ## Make a release of the commit in out/release, and install each of its files
	$(call say,release: build$(comma) install and use)
	@$(VENV)/bin/python tools/release.py

grpc: install ## Build gRPC over Farwrite into .venv (needs Debian 12's gRPC, which it fetches)
	$(call say,grpc: component)
	@tools/build_grpc.sh $(VENV)

grpc-test: grpc grpc-programs $(VENV)/.dev ## Check and test gRPC over Farwrite, with gRPC's own programs
	$(call say,lint: clang-tidy of src/grpc)
	@$(VENV)/bin/python tools/run_clang_tidy.py --jobs $(JOBS) build/grpc/component
	$(call say,test: grpc)
	@mkdir -p build/release/results
	@$(VENV)/bin/pytest -q -n $(TEST_JOBS) --dist loadfile --junit-xml=build/release/results/grpc.xml \
		tests/python/grpc
	@$(VENV)/bin/python tools/check_skips.py build/release/results/grpc.xml

grpc-programs: $(VENV)/.tools ## Build gRPC's own test programs in build/grpc/programs
	$(call say,test: build gRPC's programs (minutes at first))
	@tools/build_grpc_programs.sh

# Modules share clusters, so each runs in one process. In the order of their names: those of the
# benchmarks and of TensorFlow, which take longest, come before the short ones of the core.
IN_ORDER := --dist loadfile --no-loadscope-reorder
NAMESPACE_TESTS = $(shell grep -rl 'mark\.namespaces' --include='test_*.py' tests/python)

# Of the C++ tests: unit, conformance, interface, fault, cuda, fuzz; none means all.
RELEASE_SUITES ?=

test: install plugin $(VENV)/.torch $(VENV)/.dev ## Run the tests of everyday work: C++ in the release preset, then Python
	@tools/run_cpp_tests.sh release $(RELEASE_SUITES)
	$(call say,test: python)
	@mkdir -p build/release/results
	@$(VENV)/bin/pytest -q -n $(TEST_JOBS) $(IN_ORDER) --junit-xml=build/release/results/python.xml
	$(call say,test: between network namespaces)
	@tools/as_namespace_root.sh $(VENV)/bin/pytest -q -m "namespaces and not (slow or nightly or root)" \
		-n $(TEST_JOBS) $(IN_ORDER) --junit-xml=build/release/results/namespaces.xml $(NAMESPACE_TESTS)
	@$(VENV)/bin/python tools/check_skips.py build/release/results/*.xml

ROOT_TESTS = $(shell grep -rl 'mark\.root' --include='test_*.py' tests/python)

# Builds nothing, so that nothing in the checkout comes to belong to root.
test-root: ## After `make test`, as root: run the tests that need root
	$(call say,test: as root)
	@test $$(id -u) = 0 || { echo "make test-root: run it as root, after make test" >&2; exit 1; }
	@results=$$(mktemp -d) && trap 'rm -rf "$$results"' EXIT && export PYTHONDONTWRITEBYTECODE=1 \
		&& $(VENV)/bin/pytest -q -p no:cacheprovider -m "root and not (slow or nightly)" \
			--junit-xml="$$results/root.xml" $(ROOT_TESTS) \
		&& build/release/tests/farwrite_unit_tests --gtest_brief=1 --gtest_filter='TokenFile.*' \
			--gtest_output=xml:"$$results/unit.xml" \
		&& $(VENV)/bin/python tools/check_skips.py --none "$$results"/*.xml

test-slow: install plugin $(VENV)/.torch $(VENV)/.dev ## Run the Python tests that take half a minute or more
	$(call say,test: slow ones)
	@mkdir -p build/release/results
	@$(VENV)/bin/pytest -q -m "slow and not (namespaces or root)" --timeout 400 -n $(TEST_JOBS) --dist load \
		--junit-xml=build/release/results/slow.xml
	@tools/as_namespace_root.sh $(VENV)/bin/pytest -q -m "slow and namespaces" --timeout 400 \
		--junit-xml=build/release/results/slow_namespaces.xml $(NAMESPACE_TESTS)
	@$(VENV)/bin/python tools/check_skips.py build/release/results/slow*.xml

# As RELEASE_SUITES; doubles is one more.
ASAN_SUITES ?=

test-asan: install ## Run the C++ tests under ASan and UBSan
	@tools/run_cpp_tests.sh asan $(ASAN_SUITES)
	@$(VENV)/bin/python tools/check_skips.py build/asan/results/*.xml

test-tsan: install ## Run the C++ tests under TSan
	@tools/run_cpp_tests.sh tsan
	@$(VENV)/bin/python tools/check_skips.py build/tsan/results/*.xml

SANITIZED_LANES ?= grpc_asan plugin_asan grpc_tsan

test-sanitized: install $(VENV)/.tensorflow $(VENV)/.dev ## Run gRPC and the plug-in, in processes of their own, under the sanitizers
	@for lane in $(SANITIZED_LANES); do \
		mkdir -p build/$${lane#*_}/results && tools/run_$${lane%_*}_sanitized.sh $${lane#*_} || exit 1; done
	@$(VENV)/bin/python tools/check_skips.py $$(for lane in $(SANITIZED_LANES); do \
		find build/$${lane#*_}/results -name "$${lane%_*}*.xml"; done)

# auto, kvm or tcg (software emulation); one_guest, two_guests, tensorflow, bandwidth, large, siw.
VERBS_ACCEL ?= auto
VERBS_LANES ?= one_guest two_guests tensorflow

verbs-test: install plugin $(VENV)/.dev ## Run what needs RDMA devices in guests that have soft ones
	@tools/run_cpp_tests.sh --build-only release unit conformance
	$(call say,test: in guests with soft-RoCE)
	@$(VENV)/bin/python tests/softroce/verbs_test.py --accel $(VERBS_ACCEL) $(VERBS_LANES)
	@$(VENV)/bin/python tools/check_skips.py build/verbs/results/*.xml

test test-asan test-tsan test-sanitized verbs-test: .cache/.googletest | .cache/.verbs_headers

nightly: ## In three and a half hours, all that .ci/run leaves out, in lanes of which none stops another; ends with a table
	@$(PYTHON) tools/nightly.py

PROGRAM_MINUTES ?= 10

random-programs: install $(VENV)/.dev ## Run random programs of new seeds for PROGRAM_MINUTES; print those that fail, and what was never reached
	@$(VENV)/bin/python tests/python/random_programs/search.py --minutes $(PROGRAM_MINUTES)

SOAK_TRANSFERS ?= 1000000

soak: install ## Move SOAK_TRANSFERS tensors, make a million requests to a box; look for growth
	@$(VENV)/bin/python tests/soak/soak.py --transfers $(SOAK_TRANSFERS) --json out/soak.json
	@$(VENV)/bin/python tests/soak/box.py --operations 1000000 --json out/soak_box.json

gpu-test: install $(VENV)/.dev ## Run the tests of GPU memory on this machine's GPU (needs PyTorch, CuPy and JAX with CUDA)
	@FARWRITE_TEST_GPU=1 $(VENV)/bin/pytest -q tests/python/test_cuda.py tests/python/test_cuda_faults.py
	@FARWRITE_TEST_GPU=1 $(VENV)/bin/pytest -q tests/gpu

# Clang with libFuzzer comes from Debian's packages, unpacked; the script says so where it cannot.
fuzz: install $(VENV)/.tensorflow ## Fuzz every decoder of peer bytes, FUZZ_SECONDS (10) each
	@tools/run_fuzzers.sh

# As the wheel is compiled, without the tests.
CONFIGURE_FOR_LINT := readarray -t settings < <(sed -nE \
	's/^(Python_(EXECUTABLE|INCLUDE_DIR)|CMAKE_(CXX_FLAGS|BUILD_TYPE)|FARWRITE_PYTHON):/-D&/p' \
	build/release/CMakeCache.txt) \
	&& cmake -S . -B build/lint -G Ninja "$${settings[@]}" -DFARWRITE_UNITY=ON --log-level=WARNING >/dev/null

# all: clang-tidy and mypy look at everything, and not only at what changed since it was clean.
LINT ?= changed

lint: install $(VENV)/.tensorflow $(VENV)/.dev ## Check format, types, lints, file sizes and the map of folders
	$(call say,lint: clang-format)
	@clang-format --dry-run -Werror $(CXX_FILES)
	$(call say,lint: ruff)
	@ruff check -q $(PYTHON_FILES)
	@ruff format -q --check $(PYTHON_FILES)
	$(call say,lint: file sizes)
	@python tools/check_file_sizes.py
	$(call say,lint: the map of folders)
	@python tools/check_folders.py
	$(call say,lint: wordings)
	@python tools/check_wording.py
	$(call say,lint: what folders include)
	@python tools/check_includes.py
	$(call say,lint: names of types)
	@python tools/check_names.py
	$(call say,lint: locks)
	@python tools/check_locks.py
	@python tools/check_plugin_locks.py
	$(call say,lint: mypy)
	@LINT=$(LINT) tools/check_types.sh $(VENV)
	$(call say,lint: what files of the checkout say of each other)
	@pytest -q -m checkout -n $(JOBS) $$(grep -rl 'mark\.checkout' --include='test_*.py' tests/python)
	$(call say,lint: warnings of what is compiled for TensorFlow)
	@export FARWRITE_CXXFLAGS="-Wall -Wextra -Werror"; $(COMPILE_FOR_TENSORFLOW)
	$(call say,lint: clang-tidy)
	@$(CONFIGURE_FOR_LINT)
	@python tools/run_clang_tidy.py --jobs $(JOBS) $(if $(filter all,$(LINT)),--all) build/lint build/bench

format: $(VENV)/.dev ## Rewrite the sources in the house format
	@clang-format -i $(CXX_FILES)
	@ruff check -q --fix --select I $(PYTHON_FILES)
	@ruff format -q $(PYTHON_FILES)

clean: ## Remove build outputs; .venv and the package cache stay
	rm -rf build out dist $(VENV)/.demo $(VENV)/.installed
