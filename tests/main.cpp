// The test programs. `vitrine_tests --help` lists doctest's options; ctest runs it once per file of
// tests. Exit code: 0 passed, 1 failed or nothing selected, 77 passed but something was skipped.
#define DOCTEST_CONFIG_IMPLEMENT
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <cstdio>

#include "core/memory/allocator.h"
#include "tests/skip.h"

namespace {

unsigned selected_test_cases = 0;

/// Counts the test cases that the command line selected.
struct Counter : doctest::IReporter {
  explicit Counter(const doctest::ContextOptions&) {}
  void report_query(const doctest::QueryData&) override {}
  void test_run_start() override {}
  void test_run_end(const doctest::TestRunStats& stats) override {
    selected_test_cases = stats.numTestCasesPassingFilters;
  }
  void test_case_start(const doctest::TestCaseData&) override {}
  void test_case_reenter(const doctest::TestCaseData&) override {}
  void test_case_end(const doctest::CurrentTestCaseStats&) override {}
  void test_case_exception(const doctest::TestCaseException&) override {}
  void subcase_start(const doctest::SubcaseSignature&) override {}
  void subcase_end() override {}
  void log_assert(const doctest::AssertData&) override {}
  void log_message(const doctest::MessageData&) override {}
  void test_case_skipped(const doctest::TestCaseData&) override {}
};
REGISTER_LISTENER("counter", 1, Counter);

}  // namespace

/// LeakSanitizer calls this by name. AddressSanitizer asks glibc for the stack of each thread that
/// begins. If the program ends meanwhile, the memory of that question counts as leaked.
extern "C" const char* __lsan_default_suppressions() {
  return "leak:pthread_getattr_np\nleak:pthread_attr_setaffinity_np\nleak:__pthread_attr_extension\n";
}
/// And this. A list of the suppressions used would mix with the output that some tests read.
extern "C" const char* __lsan_default_options() { return "print_suppressions=0"; }

int main(int argc, char** argv) {
  vitrine::memory::poison_new_memory(true);
  doctest::Context context(argc, argv);
  const int result = context.run();
  if (context.shouldExit()) return result;  // a query such as --list-test-cases, not a run
  if (selected_test_cases == 0) {
    fmt::print(stderr, "No test case matches the filters: a run that tests nothing is a failure.\n");
    return 1;
  }
  if (result == 0 && vitrine::test::was_skipped()) return 77;  // ctest then says "Skipped"
  return result;
}
