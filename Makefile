# The commands of a fresh clone on Debian or Ubuntu:
#   make demo    install missing packages, build, train two small GPTs, sample, write a report
#   make test    install missing packages, build the library and its tests, run them
#   make build   install missing packages, build everything but the benchmarks
#   make bench   build the benchmarks, and install PyTorch to compare with (6 GB)
#   make check   everything; each stage also runs alone, e.g. make check-asan
#   make prove   the proofs that take hours, from where they stopped; PROOFS=programs runs one
#   make format  format all sources
#   make tidy    clang-tidy over the library, or over FILES=core/tape
#
# JOBS=n sets how many compilers and tests run side by side. In CI (CI=true) warnings are errors.
JOBS ?= $(shell nproc)
STAGE = bash .ci/stage
CTEST = ctest --parallel $(JOBS) --preset
SLOW = mutation|fuzz|planted
NO_VECTORS = cuda|text|data|report|examples
KERNELS = ^(cuda/|ops/(linear_scan|selective_scan)$$|optim/step$$)
SAMPLED = cuda/(strides|extremes|gpt|optim/optimizers|attention/(steps|16_bits)|runtime/step_graph)|ops/cpu/gemm/gemm
STAGES = format includes page docs comments lengths examples data avx2 portable samples cards asan fuzz libfuzzer cuda clang consumer inspect mutation tsan alone proofs
export JOBS

.NOTPARALLEL:
.PHONY: demo test bench check prove format tidy install install-all FORCE $(STAGES:%=check-%)

demo: install
	@bash .ci/build demo train_gpt
	@$(STAGE) "demo" build-demo/examples/train_gpt --compare standard,laser

test: install
	@$(STAGE) "build of the library and its tests" bash .ci/build release vitrine_tests
	@$(STAGE) "tests" $(CTEST) release -LE '$(SLOW)|examples' --output-log build/tests.log

bench: install
	@bash .ci/build release bench
	@bash .ci/install bench
	@bash bench/pytorch/install

prove: install-all
	@bash .ci/install prove
	@python3 .ci/prove $(PROOFS)

check: install-all
	@$(STAGE) --start
	@$(MAKE) --no-print-directory --keep-going $(STAGES:%=check-%); status=$$?; $(STAGE) --summary; exit $$status

install:
	@bash .ci/install build
install-all:
	@bash .ci/install build check

# build, build-asan, …: the build folders of the presets.
build: install FORCE
	@$(STAGE) "build" bash .ci/build release
build-asan build-tsan build-clang: install-all
build-%: install FORCE
	@$(STAGE) "build $*" bash .ci/build $*

# The stages of `make check` -----------------------------------------------------------------------
check-format: install-all
	@$(STAGE) "format" bash .ci/format --dry-run -Werror
check-includes:
	@$(STAGE) "include direction" python3 tests/include_direction.py
check-page: install-all
	@$(STAGE) "script and style of the report" .ci/page nn/report/*.js nn/report/*.css
check-docs:
	@$(STAGE) "list of operations" .ci/operations --check
check-comments:
	@$(STAGE) "comments and documents" .ci/comments
check-lengths:
	@$(STAGE) "file lengths" bash .ci/lengths
# The example programs, which `make test` does not build.
check-examples: build
	@$(STAGE) "tests of the examples" $(CTEST) release -L examples
# Reference cases in the folder that VITRINE_DATA names, which a fresh clone skips.
check-data: build
	@$(STAGE) "tests on VITRINE_DATA" $(if $(VITRINE_DATA),$(CTEST) release -R '(_|/)cases$$|^nn/attention/scale$$',sh -c 'echo VITRINE_DATA names no folder; exit 77')
# Without what has no instruction sets to choose from: the emulator, text, files and pages. Where
# AVX2 is the best that a machine has, `make test` has run on it.
check-avx2: build
	@if grep -qsw avx512vl /proc/cpuinfo; then \
	  $(STAGE) "tests on AVX2" $(CTEST) avx2 -LE '$(SLOW)|$(NO_VECTORS)'; fi
check-portable: build
	@$(STAGE) "tests on portable code" $(CTEST) portable -LE '$(SLOW)|$(NO_VECTORS)'
# Tests that take too long for `make test`: the random programs after the first thousand, all cases
# of the tests that otherwise run a part of them, and 60 pairs of attentions and parts.
check-samples: build
	@VITRINE_PROGRAMS=5000 VITRINE_PROGRAMS_FIRST=1001 VITRINE_SAMPLES=1000 VITRINE_PAIRS=60 VITRINE_PAIRS_WHOLE=1 \
	  $(STAGE) "larger samples" $(CTEST) release -R '^(programs/.*|nn/pair_checks|$(SAMPLED))$$'
# All pairs of attentions and parts, and the pages that show them.
check-cards: build
	@$(STAGE) "proof cards" .ci/cards --check
check-mutation: build
	@$(STAGE) "mutations" $(CTEST) release -L 'mutation|planted'
# In this build emulated CUDA kernels report each memory access, so races and bounds are checked.
# Tests that run none are left out, and training runs of minutes, whose kernels other tests run.
check-inspect: build-inspect
	@$(STAGE) "tests of inspected kernels" $(CTEST) inspect -R '$(KERNELS)' -LE '$(SLOW)' -E '^cuda/(gpt|trainer)$$'
check-asan: build-asan
	@$(STAGE) "tests under ASan and UBSan" $(CTEST) asan -LE '$(SLOW)'
check-fuzz: build-asan
	@$(STAGE) "fuzz under ASan and UBSan" $(CTEST) asan -L fuzz
check-libfuzzer: build-asan
	@$(STAGE) "a minute of libFuzzer" .ci/fuzz -max_total_time=60
check-tsan: build-tsan
	@$(STAGE) "tests under TSan" $(CTEST) tsan -LE '$(SLOW)'
check-cuda: install-all
	@$(STAGE) "CUDA compile" bash .ci/cuda
check-clang: build-clang
	@$(STAGE) "tests by clang" $(CTEST) clang -LE '$(SLOW)'
check-alone: install-all
	@$(STAGE) "files alone" .ci/alone
check-consumer: build build-clang
	@$(STAGE) "installed consumer" bash .ci/consumer

# This only lists the proofs and does not fail, because a proof takes hours.
check-proofs:
	@$(STAGE) "proofs" python3 .ci/prove --list

format:
	@bash .ci/format -i
tidy:
	@bash .ci/install build tidy
	@cmake --preset alone -B build-tidy >/dev/null
	@run-clang-tidy -quiet -p build-tidy -j $(JOBS) '$(CURDIR)/($(or $(FILES),core|ops|nn|optim)).*' 2>/dev/null
