// The checks that every mixer passes, from its name alone. They hold for each row of the tables of
// parts and bases, and for names that combine rows.
#pragma once

#include <string>
#include <vector>

#include "nn/transformer/mixers.h"

namespace vitrine::test {

/// The result of one check of one name.
struct Finding {
  std::string check;      ///< "differences"
  double error = 0;       ///< the largest error found
  double limit = 0;       ///< the largest error allowed
  std::string note = {};  ///< more about the result
  /// The library's reason why it computes nothing here; empty if it computes
  std::string refused = {};
  std::string failure = {};  ///< what is wrong; empty if nothing is
};

enum class Depth {
  pair,  ///< gradients in random directions; values in float64
  /// Each element of each gradient (of mixers with many parameters random directions), second
  /// derivatives, 16-bit dtypes, threads, the GPU
  whole,
};

/// Runs the checks of this depth on a small mixer with random parameters, or on a module with a
/// name of tests/nn/modules.h. A name that cannot be made has one finding, "made", with the reason.
/// A refusal must name a part or the base of the name; any other error is a failure.
std::vector<Finding> check_mixer(const std::string& name, Depth depth);

/// Checks that a row has an effect: that its outputs differ from those of standard attention, and
/// that each of its options has two values with different outputs.
std::vector<Finding> check_sensitivity(const std::string& name, const std::vector<nn::PartOption>& options);
/// Whether a module of tests/nn/modules.h computes something else than every other one whose output
/// has the same shape. Parameters of the same path are the same.
Finding check_module_effect(const std::string& name);

/// Writes the findings to the file that VITRINE_FINDINGS names, a JSON object per line. Does
/// nothing if the variable is not set.
void record(const std::string& subject, const std::vector<Finding>& findings);
/// Writes the rows of both tables to that file.
void record_rows();

}  // namespace vitrine::test
