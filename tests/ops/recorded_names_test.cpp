#include <doctest/doctest.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <regex>
#include <set>

#include "core/creation.h"
#include "core/record.h"
#include "tests/data.h"
#include "tests/spec/spec.h"

using namespace vitrine;

TEST_CASE("what a row records on the tape has a row of its own") {
  for (const auto& row : spec::rows()) {
    const std::string error = spec::check_names(row);
    CHECK_MESSAGE(error.empty(), error);
  }
}

TEST_CASE("an op that has no row is told, and a row of the caller's counts") {
  const spec::Call call = [](const auto& x) {
    return record("stranger", {x[0]}, copy_as(x[0], x[0].dtype()),
                  [](const Tensor& dy) -> Grads { return {dy}; });
  };
  const spec::Spec misnamed = {"strange", call, {{{{3, 5}}}}}, named = {"stranger", call, {{{{3, 5}}}}};
  CHECK(spec::check_names(misnamed) == "strange records stranger, which has no row");
  CHECK(spec::check_names(misnamed, {named}).empty());
}

TEST_CASE("every operation that the library records by its name has a row") {
  // `to` is recorded only between two devices; recomputed and reversible blocks record only
  // the functions that they receive.
  std::set<std::string> known = {"to", "recompute", "reversible"};
  for (const auto& row : spec::rows()) known.insert(row.name);
  static const std::regex recorded(R"re(\brecord(?:_all)?\(\s*"(\w+)")re");
  int count = 0;
  for (const char* folder : {"core", "ops", "nn"})
    for (const auto& file :
         std::filesystem::recursive_directory_iterator(test::source_directory() / folder)) {
      if (file.path().extension() != ".cpp") continue;
      std::ifstream in(file.path());
      const std::string text{std::istreambuf_iterator<char>(in), {}};
      for (std::sregex_iterator at(text.begin(), text.end(), recorded), end; at != end; ++at, ++count)
        CHECK_MESSAGE(known.count((*at)[1]) == 1, file.path().string(), " records ", (*at)[1].str());
    }
  CHECK(count > 30);
}
