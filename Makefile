# Riddle is built by this one file. `make help` lists the targets.
#
# Source lists come from the folders, so a new file needs no edit here. A folder of src/ becomes an archive
# ($(BUILD)/lib/<folder>.a) and a program takes from an archive only what it uses: that is how `riddle` stays free of
# CPython and DuckDB, though both share base, plan and sandbox.
#
#   DEVELOPER=1                     warnings are errors
#   SANITIZER=address,undefined     a tree of its own (build-asan) beside the plain one
#   T=base                          only the unit tests under tests/unit/base
#   V=1                             show the commands
#   CC=clang BUILD=build-clang      another compiler, another tree

SHELL := /bin/bash
.DEFAULT_GOAL := all
.DELETE_ON_ERROR:
.SUFFIXES:
MAKEFLAGS += --no-builtin-rules --no-print-directory

# As many jobs as there are processors, unless the caller said otherwise; sub-makes share the jobserver of the first.
ifeq ($(MAKELEVEL),0)
ifeq ($(filter -j% --jobs%,$(shell tr '\0' ' ' </proc/$$PPID/cmdline)),)
MAKEFLAGS += -j$(shell nproc)
endif
endif

# ---- what is built where -----------------------------------------------------------------------------------------------

SANITIZER ?=
comma := ,
ifeq ($(SANITIZER),)
BUILD ?= build
else ifeq ($(SANITIZER),address$(comma)undefined)
BUILD ?= build-asan
else
BUILD ?= build-$(subst $(comma),-,$(SANITIZER))
endif

PREFIX ?= /usr/local
DESTDIR ?=
DUCKDB := third_party/duckdb
BOUND := $(DUCKDB)/bound
PYTHON := /usr/bin/python3
PYTHON_VERSION := $(shell $(PYTHON) -c 'import sysconfig; print(sysconfig.get_python_version())' 2>/dev/null)
ARCH := $(shell uname -m)

ifeq ($(V),1)
Q :=
say = @:
else
Q := @
say = @printf '  %-5s %s\n'
endif

# ---- flags -------------------------------------------------------------------------------------------------------------

PACKAGES := jansson libuv libmicrohttpd zlib sqlite3 libpq libcurl libedit libseccomp libcrypto expat xlsxwriter freexl libzip libzstd python-$(PYTHON_VERSION)-embed cmocka
MISSING := $(shell for p in $(PACKAGES); do pkg-config --exists $$p 2>/dev/null || echo $$p; done)
pkg = $(shell pkg-config $(1) $(2) 2>/dev/null)

WARNINGS := -Wall -Wextra -Wshadow -Wstrict-prototypes -Wmissing-prototypes -Wformat=2 -Wundef -Wpointer-arith -Wvla
ifeq ($(DEVELOPER),1)
WARNINGS += -Werror
endif

CFLAGS ?= -O2 -g
HARDEN := -fstack-protector-strong -fPIE $(if $(filter x86_64,$(ARCH)),-fcf-protection) $(if $(filter aarch64,$(ARCH)),-mbranch-protection=standard)
# `now` binds the program's own imports at start and leaves those of libduckdb lazy: measured, it costs riddle-kernel nothing.
HARDEN_LD := -Wl,-z,relro,-z,now -Wl,-z,noexecstack
ifeq ($(SANITIZER),)
HARDEN += -U_FORTIFY_SOURCE -D_FORTIFY_SOURCE=2
SAN :=
else
# No _FORTIFY_SOURCE: its wrappers hide calls from AddressSanitizer's interceptors.
SAN := -fsanitize=$(SANITIZER) -fno-sanitize-recover=all -fno-omit-frame-pointer
endif

# Headers of others are system headers: our warnings are about our code.
SYSTEM_INCLUDES := $(patsubst -I%,-isystem %,$(call pkg,--cflags-only-I,python-$(PYTHON_VERSION)-embed)) -isystem $(DUCKDB)

ALL_CFLAGS = -std=gnu17 -D_GNU_SOURCE -Isrc -I$(BUILD) $(SYSTEM_INCLUDES) $(WARNINGS) $(HARDEN) $(SAN) $(CFLAGS) $(CPPFLAGS)
ALL_LDFLAGS = $(HARDEN_LD) $(SAN) -Wl,--as-needed $(LDFLAGS)

LIBS_riddle = -pie $(call pkg,--libs,jansson libuv zlib sqlite3) -lm
# CPython is linked in, as in Debian's own interpreter: nothing of it is left to do when a kernel for SQL is started. Its archive is
# built for fixed addresses, and so is this program; the zygote has to have them anyway. Extension modules find its functions here.
# Where the archive cannot be linked (Debian 13's lacks objects of its own), and in sanitized programs, where a leak of CPython's own
# is told from one of ours by the library's name, it is the shared library.
LIBPYTHON := $(shell $(PYTHON) -c 'import sysconfig; print(sysconfig.get_config_var("LIBPL"))' 2>/dev/null)/libpython$(PYTHON_VERSION).a
PYTHON_STATIC := -no-pie -Wl,--whole-archive $(LIBPYTHON) -Wl,--no-whole-archive -Wl,--export-dynamic-symbol=Py* \
	-Wl,--export-dynamic-symbol=_Py*
PYTHON_SHARED := -pie $(call pkg,--libs,python-$(PYTHON_VERSION)-embed)
PYTHON_NEEDS := $(call pkg,--libs,zlib expat) -lm -lpthread -ldl
LINK_PYTHON := $(BUILD)/gen/link-python
LIBS_kernel = -L$(BOUND) -lduckdb @$(LINK_PYTHON) $(call pkg,--libs,jansson libseccomp xlsxwriter sqlite3 freexl libzip libzstd) $(PYTHON_NEEDS)
RPATH_kernel = -Wl,-rpath,'$$ORIGIN/../third_party/duckdb/bound:$$ORIGIN/../lib/riddle'

# ---- sources -----------------------------------------------------------------------------------------------------------

# Folders of src/, users before what they use. Those that do not exist have no files and so no archive.
DIRS_riddle := cli api dap agent data nl llm run database store sandbox plan net base
DIRS_kernel := kernel sandbox plan base
DIRS := $(sort $(DIRS_riddle) $(DIRS_kernel))

objects = $(patsubst src/%.c,$(BUILD)/obj/%.o,$(filter-out src/%/main.c,$(sort $(shell find src/$(1) -name '*.c'))))
archives = $(foreach d,$(1),$(if $(call objects,$(d))$(EMBEDDED_$(d)),$(BUILD)/lib/$(d).a))

# Files that are compiled into a program: the Python inside the kernel, the Python that riddle sends to one, and the page.
RUNTIME_PY := $(sort $(wildcard src/kernel/python/runtime/*.py))
CELLS_PY := $(sort $(wildcard src/agent/*.py))
PAGE_SOURCES := $(sort $(shell find web -type f -not -name 'test*'))
PAGE := third_party/page
EMBEDDED_kernel := $(BUILD)/gen/runtime_files.o
EMBEDDED_agent := $(if $(CELLS_PY),$(BUILD)/gen/cell_files.o)
EMBEDDED_api := $(BUILD)/gen/page_files.o $(BUILD)/gen/api_files.o
EMBEDDED_nl := $(BUILD)/gen/lexicon_words.o $(BUILD)/gen/lexicon_vectors.o
WORDNET ?= /usr/share/wordnet
VECTORS := third_party/words

PROGRAMS := $(BUILD)/riddle $(BUILD)/riddle-kernel

# A unit test is one file and one program; other .c files beside it are helpers linked into every test of that folder.
# It links the archive of the folder that it mirrors and of those below it.
UNIT_C := $(sort $(shell find tests/unit/$(T) -name 'test_*.c' 2>/dev/null))
UNIT := $(patsubst tests/unit/%.c,$(BUILD)/tests/%,$(UNIT_C))
BELOW_base := base
BELOW_plan := plan base
BELOW_net := net base
BELOW_data := data nl database store sandbox plan net base
BELOW_sandbox := sandbox net base
BELOW_database := database net base
BELOW_run := run database sandbox store plan net base
BELOW_store := store base
BELOW_llm := llm net base
BELOW_nl := nl plan base
BELOW_agent := agent data nl llm store run database sandbox plan net base
BELOW_dap := dap $(BELOW_agent)
BELOW_fault := $(filter-out cli,$(DIRS_riddle))
BELOW_kernel := $(DIRS_kernel)
BELOW_cli := $(DIRS_riddle)
below = $(or $(BELOW_$(1)),$(filter-out cli api,$(DIRS_riddle)))

# ---- programs ----------------------------------------------------------------------------------------------------------

.PHONY: all
all: $(PROGRAMS) ## Build $(BUILD)/riddle and $(BUILD)/riddle-kernel (the default)

link = $(CC) $(ALL_LDFLAGS) -o $@ $(filter %.o,$^) -Wl,--start-group $(filter %.a,$^) -Wl,--end-group

$(BUILD)/riddle: $(BUILD)/obj/cli/main.o $(call archives,$(DIRS_riddle))
	$(say) LD $@
	$(Q)$(link) $(LIBS_riddle)

$(BUILD)/riddle-kernel: $(BUILD)/obj/kernel/main.o $(call archives,$(DIRS_kernel)) $(LINK_PYTHON) | $(BOUND)/libduckdb.so
	$(say) LD $@
	$(Q)$(link) $(RPATH_kernel) $(LIBS_kernel)

define archive_rule
$(BUILD)/lib/$(1).a: $$(call objects,$(1)) $(EMBEDDED_$(1))
	$$(say) AR $$@
	$$(Q)mkdir -p $$(@D) && rm -f $$@ && $$(AR) rcs $$@ $$^
endef
$(foreach d,$(DIRS),$(eval $(call archive_rule,$(d))))

PLATFORM := $(BUILD)/gen/platform.h
compile = mkdir -p $(@D) && $(CC) $(ALL_CFLAGS) -MMD -MP -c -o $@ $<

$(BUILD)/obj/%.o: src/%.c $(BUILD)/flags | $(PLATFORM) $(DUCKDB)/version packages-present
	$(say) CC $<
	$(Q)$(compile)

# What depends on the system that Riddle is built on: asked of its interpreter and compiler, and nowhere written down.
$(PLATFORM): scripts/platform-header $(BUILD)/flags | packages-present
	$(say) GEN $@
	$(Q)mkdir -p $(@D) && $(PYTHON) -I scripts/platform-header $@ $(CC)

# How CPython is linked, as a file of arguments.
$(LINK_PYTHON): $(BUILD)/flags | packages-present
	$(Q)mkdir -p $(@D) && if [[ -z "$(SANITIZER)" ]] && echo 'int main(void) { return 0; }' | \
		$(CC) -x c - -x none -o $@.try $(PYTHON_STATIC) $(PYTHON_NEEDS) 2>$@.log; \
		then echo '$(PYTHON_STATIC)'; else echo '$(PYTHON_SHARED)'; fi >$@; rm -f $@.try

$(BUILD)/gen/runtime_files.c: scripts/embed-files $(RUNTIME_PY)
	$(say) GEN $@
	$(Q)mkdir -p $(@D) && scripts/embed-files $@ kernel/python/runtime.h runtime_file $(RUNTIME_PY)

$(BUILD)/gen/cell_files.c: scripts/embed-files $(CELLS_PY)
	$(say) GEN $@
	$(Q)mkdir -p $(@D) && scripts/embed-files $@ agent/draw.h cell_file $(CELLS_PY)

$(BUILD)/gen/api_files.c: scripts/embed-files src/api/answers.json
	$(say) GEN $@
	$(Q)mkdir -p $(@D) && scripts/embed-files $@ api/app.h api_file src/api/answers.json

# The page: bundled and compressed by web/build.mjs. The names of its files hold their hashes, so the embedder lists the folder.
$(BUILD)/gen/page_files.c: scripts/embed-files $(PAGE_SOURCES) $(PAGE)/version
	$(say) GEN $@
	$(Q)rm -rf $(BUILD)/page && mkdir -p $(@D) $(BUILD)/page && node web/build.mjs $(BUILD)/page && \
		scripts/embed-files $@ net/static.h static_file $$(find $(BUILD)/page -type f -name '*.gz' | sort)

$(PAGE)/version: scripts/fetch-third-party web/package-lock.json
	$(Q)scripts/fetch-third-party page

$(BUILD)/gen/lexicon_words.c: scripts/make-lexicon
	$(say) GEN $@
	$(Q)mkdir -p $(@D) && scripts/make-lexicon $@ $(WORDNET)

# Words as vectors: a package of npm, reduced when it is fetched.
$(BUILD)/gen/lexicon_vectors.c: scripts/embed-files $(VECTORS)/version
	$(say) GEN $@
	$(Q)mkdir -p $(@D) && scripts/embed-files $@ nl/lexicon.h lexicon_file $(VECTORS)/vectors

$(VECTORS)/version: scripts/fetch-third-party scripts/make-vectors
	$(Q)WORDNET=$(WORDNET) scripts/fetch-third-party words

$(BUILD)/gen/%.o: $(BUILD)/gen/%.c $(BUILD)/flags | $(PLATFORM) packages-present
	$(say) CC $<
	$(Q)$(compile)

# A file that changes only when what it holds changes: other flags compile everything anew.
remember = mkdir -p $(@D); echo '$(subst ','\'',$(1))' | cmp -s - $@ || echo '$(subst ','\'',$(1))' >$@
.PHONY: FORCE
FORCE:
$(BUILD)/flags: FORCE
	@$(call remember,$(CC) $(ALL_CFLAGS) $(ALL_LDFLAGS))

$(DUCKDB)/version: scripts/fetch-third-party
	$(Q)scripts/fetch-third-party duckdb

# The library with its references to itself looked up once, here, instead of at every start of a zygote (on x86-64; elsewhere it is
# taken as it is).
$(BOUND)/libduckdb.so: scripts/bind-library | $(DUCKDB)/version
	$(say) BIND $@
	$(Q)mkdir -p $(@D) && $(if $(filter x86_64,$(ARCH)),scripts/bind-library,cp) $(DUCKDB)/libduckdb.so $@

.PHONY: packages-present
packages-present:
ifneq ($(MISSING),)
	@echo "make: not installed: $(MISSING) (as pkg-config names them); run 'make deps'" >&2; exit 1
endif

# ---- unit tests --------------------------------------------------------------------------------------------------------

$(BUILD)/obj/tests/%.o: tests/unit/%.c $(BUILD)/flags | $(PLATFORM) $(DUCKDB)/version packages-present
	$(say) CC $<
	$(Q)$(compile) -Itests/unit

# What tests/unit/fault makes fail.
FAULT_WRAP := $(patsubst %,-Wl$(comma)--wrap=%,malloc calloc realloc reallocarray strdup strndup write send sendmsg rename renameat \
	fork vfork uv_timer_start)

unit_dir = $(firstword $(subst /, ,$(patsubst tests/unit/%,%,$(1))))
unit_helpers = $(patsubst tests/unit/%.c,$(BUILD)/obj/tests/%.o,$(filter-out $(dir $(1))test_%,$(wildcard $(dir $(1))*.c)))
define unit_rule
$(patsubst tests/unit/%.c,$(BUILD)/tests/%,$(1)): $(patsubst tests/unit/%.c,$(BUILD)/obj/tests/%.o,$(1)) \
		$(call unit_helpers,$(1)) $$(call archives,$$(call below,$(call unit_dir,$(1)))) \
		$(if $(filter kernel,$(call unit_dir,$(1))),$(LINK_PYTHON) | $(BOUND)/libduckdb.so)
	$$(say) LD $$@
	$$(Q)mkdir -p $$(@D) && $$(link) $(if $(filter fault,$(call unit_dir,$(1))),$$(FAULT_WRAP)) -lcmocka \
		$(if $(filter kernel,$(call unit_dir,$(1))),-Wl$(comma)-rpath$(comma)$(CURDIR)/$(BOUND) $$(LIBS_kernel),$$(LIBS_riddle))
endef
$(foreach t,$(UNIT_C),$(eval $(call unit_rule,$(t))))
.SECONDARY:

# Programs that tests and benchmarks drive: the interfaces of sandboxes and of models without a server.
TOOLS := $(patsubst tests/tools/%.c,$(BUILD)/tests/tools/%,$(wildcard tests/tools/*.c))

$(BUILD)/obj/tools/%.o: tests/tools/%.c $(BUILD)/flags | $(PLATFORM) packages-present
	$(say) CC $<
	$(Q)$(compile)

$(BUILD)/tests/tools/%: $(BUILD)/obj/tools/%.o $(call archives,run sandbox llm net base)
	$(say) LD $@
	$(Q)mkdir -p $(@D) && $(link) $(LIBS_riddle)

# Peers that a benchmark measures in the same run.
BENCH := $(patsubst bench/%.c,$(BUILD)/bench/%,$(wildcard bench/*.c))

$(BUILD)/obj/bench/%.o: bench/%.c $(BUILD)/flags | $(PLATFORM) $(DUCKDB)/version packages-present
	$(say) CC $<
	$(Q)$(compile)

$(BUILD)/bench/%: $(BUILD)/obj/bench/%.o $(call archives,$(DIRS_kernel)) $(LINK_PYTHON) | $(BOUND)/libduckdb.so
	$(say) LD $@
	$(Q)mkdir -p $(@D) && $(link) -Wl,-rpath,$(CURDIR)/$(BOUND) $(LIBS_kernel)

# A fuzzer is one file with LLVMFuzzerTestOneInput(). As a test it replays tests/fuzz/corpus/<name>; `make fuzz` lets it search.
FUZZ_C := $(sort $(wildcard tests/fuzz/fuzz_*.c))
FUZZ := $(patsubst tests/fuzz/%.c,$(BUILD)/fuzz/%,$(FUZZ_C))
# From the kernel only what needs neither CPython nor DuckDB.
LIBS_fuzz = $(call pkg,--libs,freexl libzip libzstd expat) -lm
FUZZ_LIBS := $(call archives,$(filter-out cli,$(DIRS_riddle)) kernel)

$(BUILD)/obj/fuzz/%.o: tests/fuzz/%.c $(BUILD)/flags | $(PLATFORM) packages-present
	$(say) CC $<
	$(Q)$(compile)

$(FUZZ): $(BUILD)/fuzz/%: $(BUILD)/obj/fuzz/%.o $(BUILD)/obj/fuzz/replay.o $(FUZZ_LIBS)
	$(say) LD $@
	$(Q)mkdir -p $(@D) && $(link) $(LIBS_riddle) $(LIBS_fuzz)

$(BUILD)/libfuzzer/%: $(BUILD)/obj/fuzz/%.o $(FUZZ_LIBS)
	$(say) LD $@
	$(Q)mkdir -p $(@D) && $(link) -fsanitize=fuzzer $(LIBS_riddle) $(LIBS_fuzz)

.PHONY: unit-programs tools bench-programs
bench-programs: $(BENCH)
unit-programs: $(UNIT) $(if $(T),,$(FUZZ))
tools: $(TOOLS)

# ---- what people call --------------------------------------------------------------------------------------------------

ASAN := SANITIZER=address,undefined BUILD=build-asan

.PHONY: help deps run test check-unit check-asan check-tsan fuzz check-jail check-attack check-chaos check-contract check-integration check-browser check-long check-fresh check-cgroup2 bench-kernel bench-server bench-chat bench-page bench-sandbox bench-flood bench-database bench-threads bench-docker bench-files \
	format lint docs image install clean

help: ## List the targets
	@awk -F':.*## ' '/^[a-z][a-z0-9-]*:.*## /{printf "  %-18s %s\n", $$1, $$2}' $(firstword $(MAKEFILE_LIST)) | sed 's/$$(BUILD)/build/g'

deps: ## Install the Debian packages that are missing and fetch DuckDB
	$(Q)scripts/install-deps run build test
	$(Q)scripts/fetch-third-party

run: ## Install what is missing, build, and start Riddle on port 8000, or PORT
	$(Q)$(MAKE) deps
	$(Q)$(MAKE) all
	$(Q)exec $(BUILD)/riddle serve

# Every case runs sanitized. The plain tree runs those whose subject depends on how it is built (pytest.ini, `plain`), and the suites
# that are about the whole product as people have it.
test: ## Install what is missing, build both trees, and run every suite
	$(Q)$(MAKE) deps
	$(Q)scripts/fetch-third-party aimock dap-client
	$(Q)$(MAKE) BUILD=build SANITIZER= all tools
	$(Q)$(MAKE) $(ASAN) all tools unit-programs
	$(Q)scripts/run-tests unit:build-asan fuzz:build-asan integration:build-asan contract:build-asan contract:build:plain seeds:build browser:build jail:build attack:build integration:build:plain

# What cannot be built does not keep the rest from being tested, but it is a failure.
check-unit: ## Unit tests of this tree; T=base only those of tests/unit/base
	$(Q)$(MAKE) -k unit-programs; built=$$?; scripts/run-tests unit$(T:%=/%):$(BUILD) && exit $$built

check-asan: ## Unit and integration tests under AddressSanitizer and UBSan
	$(Q)scripts/fetch-third-party aimock dap-client
	$(Q)$(MAKE) $(ASAN) all tools unit-programs
	$(Q)scripts/run-tests unit:build-asan fuzz:build-asan integration:build-asan

# The server with its worker threads, and the unit tests of what uses them; kernels are processes of their own, and plain.
TSAN_FOLDERS := base net store sandbox
check-tsan: ## What uses threads under ThreadSanitizer
	$(Q)$(MAKE) BUILD=build SANITIZER= all
	$(Q)$(MAKE) SANITIZER=thread BUILD=build-tsan build-tsan/riddle $(foreach f,$(TSAN_FOLDERS),\
		$(patsubst tests/unit/%.c,build-tsan/tests/%,$(sort $(shell find tests/unit/$(f) -name 'test_*.c'))))
	$(Q)ln -sfn ../build/riddle-kernel build-tsan/riddle-kernel
	$(Q)scripts/run-tests $(TSAN_FOLDERS:%=unit/%:build-tsan) integration/test_server_runs.py:build-tsan

SECONDS ?= 600
FUZZ_DICT = $(wildcard tests/fuzz/$(F).dict)

fuzz: ## Fuzz one entry of tests/fuzz with clang's libFuzzer: F=plan SECONDS=600
	@[[ -n "$(F)" && -f "tests/fuzz/fuzz_$(F).c" ]] || \
		{ echo "make: F names a fuzzer: $(FUZZ_C:tests/fuzz/fuzz_%.c=%)" >&2; exit 2; }
	$(Q)$(MAKE) CC=clang BUILD=build-fuzz SANITIZER=fuzzer-no-link,address,undefined build-fuzz/libfuzzer/fuzz_$(F)
	$(Q)mkdir -p build-fuzz/corpus/$(F)
	$(Q)build-fuzz/libfuzzer/fuzz_$(F) -max_total_time=$(SECONDS) -timeout=10 -rss_limit_mb=2048 -print_final_stats=1 \
		-artifact_prefix=build-fuzz/$(F)- $(FUZZ_DICT:%=-dict=%) build-fuzz/corpus/$(F) tests/fuzz/corpus/$(F)

check-jail: all tools ## What must be impossible inside the jail
	$(Q)scripts/run-tests jail:$(BUILD)

check-attack: all ## Attacks on a running server, with another owner at work
	$(Q)scripts/run-tests attack:$(BUILD)

check-chaos: all tools ## Faults at random under load, with an oracle: MINUTES=10 (root: a full disk, too)
	$(Q)RIDDLE_BUILD=$(BUILD) MINUTES=$(or $(MINUTES),10) /usr/bin/python3 -m pytest -q -s --tb=short -p no:cacheprovider -m long tests/integration/test_chaos.py

check-contract: all tools ## Every sandbox provider through the same cases
	$(Q)scripts/run-tests contract:$(BUILD)

check-integration: all tools ## Both programs from the outside
	$(Q)scripts/fetch-third-party aimock dap-client
	$(Q)scripts/run-tests integration:$(BUILD)

check-seeds: all tools ## Clients of the systems that Riddle takes over from
	$(Q)scripts/fetch-third-party aimock dap-client
	$(Q)scripts/run-tests seeds:$(BUILD)

check-browser: all ## The page in Chromium
	$(Q)scripts/run-tests browser:$(BUILD)

check-long: all tools ## The tests that take too long for every day
	$(Q)scripts/fetch-third-party aimock dap-client
	$(Q)$(MAKE) check-tsan
	$(Q)scripts/run-tests --long integration:$(BUILD) jail:$(BUILD)

check-fresh: ## Prove `make test` and `make run` in a fresh Debian (root only): RELEASE=trixie
	$(Q)RELEASE=$(RELEASE) scripts/check-fresh

check-cgroup2: all tools ## Prove control groups of version 2 on Debian's own kernel, in QEMU (takes long)
	$(Q)scripts/check-cgroup2

bench-kernel: all tools bench-programs ## Measure start-up, latency, memory and SQL against Docker, Jupyter and DuckDB
	$(Q)scripts/install-deps run build bench
	$(Q)bench/kernel $(BENCH_FLAGS)

bench-server: all ## Measure requests, runs, load, streams and uploads against FastAPI and Docker
	$(Q)scripts/install-deps run build bench
	$(Q)bench/server $(BENCH_FLAGS)

bench-chat: all ## Measure first events, tools of a model, answers without one, riddle ask, and many threads at once
	$(Q)scripts/install-deps run build bench
	$(Q)bench/chat $(BENCH_FLAGS)

bench-threads: all ## Measure images of threads, and check many threads that go cold while the server is killed
	$(Q)scripts/install-deps run build bench
	$(Q)RIDDLE_BUILD=$(BUILD) bench/threads $(BENCH_FLAGS)

bench-planner: all ## Score the planner without a model on the question sets beside the project
	$(Q)bench/planner $(BUILD)

bench-page: all ## Measure the page in Chromium: its first load, long answers and large results
	$(Q)scripts/install-deps run build test
	$(Q)RIDDLE_BUILD=$(BUILD) bench/page $(BENCH_FLAGS)

bench-sandbox: all ## Measure executions of /sandbox from request to answer, against Docker and Jupyter
	$(Q)scripts/install-deps run build bench
	$(Q)RIDDLE_BUILD=$(BUILD) bench/sandbox $(BENCH_FLAGS)

bench-flood: all ## Measure what a neighbour notices of cells that flood their control socket
	$(Q)RIDDLE_BUILD=$(BUILD) bench/flood $(BENCH_FLAGS)

bench-database: all ## Measure db_query() in a cell against psycopg in a bare process
	$(Q)scripts/install-deps run build test bench
	$(Q)RIDDLE_BUILD=$(BUILD) bench/database $(BENCH_FLAGS)

bench-files: all bench-programs ## Measure ingests against libduckdb, queries larger than memory, pages and exports of large tables
	$(Q)BUILD=$(BUILD) bench/files $(BENCH_FLAGS)

bench-docker: all ## Measure runs and cells in Docker containers against those of the local provider
	$(Q)scripts/install-deps run build test
	$(Q)bench/docker $(BENCH_FLAGS)

format: ## Format the C sources
	$(Q)git ls-files '*.c' '*.h' | xargs -r clang-format -i

# Every C file through a compiler that writes nothing: much faster than a second build.
.PHONY: syntax
syntax: $(PLATFORM) | $(DUCKDB)/version
	$(Q)git ls-files -z '*.c' | xargs -0 -r -n 12 -P $$(nproc) $(CC) $(ALL_CFLAGS) -Itests/unit -fsyntax-only

lint: ## Check shell scripts, and compile everything with clang as well
	+$(Q)scripts/lint

docs: $(BUILD)/riddle $(BUILD)/tests/sandbox/test_wire ## Write docs/env.md, .env.example and docs/wire.md from their tables
	$(Q)$(BUILD)/riddle --print-env-docs >docs/env.md.new && mv docs/env.md.new docs/env.md
	$(Q)$(BUILD)/riddle --print-env-example >.env.example.new && mv .env.example.new .env.example
	$(Q)RIDDLE_UPDATE_DOCS=1 $(BUILD)/tests/sandbox/test_wire >/dev/null

image: all ## Build the image of the docker provider from this tree, and load it into the daemon at DOCKER_HOST
	$(Q)scripts/build-image --build=$(BUILD)

install: all ## Install under PREFIX (/usr/local)
	install -d $(DESTDIR)$(PREFIX)/bin $(DESTDIR)$(PREFIX)/lib/riddle
	install -m 755 $(PROGRAMS) $(DESTDIR)$(PREFIX)/bin
	install -m 644 $(BOUND)/libduckdb.so $(DESTDIR)$(PREFIX)/lib/riddle
	install -d $(DESTDIR)$(PREFIX)/share/riddle/swagger-ui
	install -m 644 third_party/swagger-ui/* $(DESTDIR)$(PREFIX)/share/riddle/swagger-ui

clean: ## Remove every build tree (third_party stays)
	rm -rf build build-*

-include $(shell find $(BUILD) -name '*.d' 2>/dev/null)
