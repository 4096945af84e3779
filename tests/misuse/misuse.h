// Misuse of the public API: the message contains the words that help, and nothing is changed.
#pragma once

#include <doctest/doctest.h>

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "core/tensor.h"

namespace vitrine::test {

/// What a mistake is made in.
struct Scene {
  virtual ~Scene() = default;
  /// Everything that the mistake must leave as it is.
  virtual std::string state() const = 0;
  /// So also what belongs to the thread: the recording tape, the module that runs, the generator,
  /// the memory in use.
  virtual std::string thread_state() const;
  /// All that follows from what the correct call gives.
  virtual std::string outcome(const Tensor& y);
};

/// A mistake in a scene, which its functions refer to.
struct Misuse {
  std::string what;  ///< what is done
  std::function<void()> wrong;
  std::vector<std::string> words;       ///< the message holds each: what was wanted, and what came
  std::function<Tensor()> right;        ///< a correct call afterwards
  std::function<void()> given = [] {};  ///< what comes before
};

/// The cases of a scene.
template <class S>
using Table = std::vector<Misuse> (*)(S&);

/// Dtype, shape, version, gradient and all values, to the last bit.
std::string show(const Tensor& x);
/// "" if f throws an Error whose message holds all words, else what is wrong.
std::string problem_with_message(const std::function<void()>& f, const std::vector<std::string>& words);
/// Runs f in a child process, in which files have at most `file_bytes` and root is a user like
/// others; throws what f throws there.
void in_poor_child(const std::function<void()>& f, size_t file_bytes = 1 << 30);

/// What the correct call gives after the mistake, or without it.
std::string outcome_without(Scene& scene, const Misuse& m);
/// "" if the mistake is told, leaves the state as it was, and the correct call then gives `want`.
std::string problem_of(Scene& scene, const Misuse& m, const std::string& want);

template <class S>
std::string problem_of(Table<S> table, size_t i) {
  std::string want;
  {
    S untouched;
    want = outcome_without(untouched, table(untouched)[i]);
  }
  S scene;
  return problem_of(scene, table(scene)[i], want);
}

template <class S>
void check_all(Table<S> table) {
  const auto names = [&] {
    S scene;
    std::vector<std::string> result;
    for (const Misuse& m : table(scene)) result.push_back(m.what);
    return result;
  }();
  for (size_t i = 0; i < names.size(); ++i) {
    const std::string problem = problem_of(table, i);
    CHECK_MESSAGE(problem.empty(), names[i], ": ", problem);
  }
}

}  // namespace vitrine::test
