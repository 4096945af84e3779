// Modules that are not rows of the tables of mixers and parts, so that the checks of mixers prove
// them too.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "nn/attention/part.h"
#include "nn/mixer.h"

namespace vitrine::test {

/// A module as a mixer: x [B, T, 8] → y [B, T', C']. A module of two sequences gets a second one
/// that is computed from x and has another length. Such a mixer hides nothing and has no state.
struct ModuleRow {
  std::string name, help, formula, source;
  std::function<std::unique_ptr<nn::Mixer>()> make;
  std::vector<nn::PartOption> options = {};
};
const std::vector<ModuleRow>& module_rows();
/// The row of that name, or null.
const ModuleRow* find_module(const std::string& name);

}  // namespace vitrine::test
