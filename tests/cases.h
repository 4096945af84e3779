// Reference cases computed independently of this library: what their runners share.
#pragma once

#include <filesystem>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "tests/noted.h"

namespace vitrine::test {

/// A JSON file; one that is missing or is not JSON is an error that names it.
Json read_json(const std::filesystem::path& path);

/// A list of what is skipped, one `name: reason` per line; # begins a comment. The path is relative
/// to the sources.
std::map<std::string, std::string> read_skips(const std::string& path);

/// The adapter of `key`; an error that names `what` and `key` if there is none.
template <class Adapter>
const Adapter& adapter_of(const std::map<std::string, Adapter>& adapters, const std::string& what,
                          const std::string& key) {
  const auto found = adapters.find(key);
  check(found != adapters.end(), "the {} {} has no adapter and is not in the list of skips", what, key);
  return found->second;
}

/// Runs reference cases one after the other. A case that fails, for which there is no adapter, or
/// whose file cannot be read, does not stop the others.
class CaseRunner {
 public:
  /// `skips` is a list for read_skips(); "" skips nothing.
  explicit CaseRunner(const std::string& skips = "");

  /// Calls `test` for each element of the array `cases`. What it throws is the failure of that
  /// case, whose name is in `field`.
  void run(const Json& cases, const std::string& field, const std::function<void(const Json&)>& test);
  /// Runs one case.
  void run_one(const std::string& name, const std::function<void()>& test);

  /// For `test`: true if the list skips `key`. The case then counts as skipped, and `test` must
  /// return.
  bool skips(const std::string& key);

  int ran() const { return ran_; }  ///< cases that were not skipped, those that failed included
  int skipped() const { return skipped_; }
  /// One line per case that failed, "NAME: what is wrong"; "" if there is none.
  const std::string& failures() const { return failures_; }
  /// Lines of the list that have skipped no case, joined by ", ".
  std::string unused_skips() const;

 private:
  std::map<std::string, std::string> skips_;
  std::set<std::string> used_;
  int ran_ = 0, skipped_ = 0;
  bool skips_this_ = false;
  std::string failures_;
};

}  // namespace vitrine::test
