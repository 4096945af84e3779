// Parameters by pattern: which of them are trained.
#pragma once

#include <string>

#include "nn/module.h"

namespace vitrine::nn {

/// Whether the pattern names the path, or a module that contains it. Both are names joined by dots.
/// In a pattern * is any text within one name, and ** is any number of names. Thus
/// "blocks.*.attention" names all parameters of all attentions, and "**.bias" names every bias.
bool path_matches(const std::string& path, const std::string& pattern);

/// Freezes the parameters that the pattern names: they have no gradient, and optimizers skip them.
/// Returns their number. A pattern that names none is an error. A parameter that is tied is frozen
/// for all its uses, by its first name.
int64_t freeze(Module& module, const std::string& pattern = "**");
/// The same parameters are trained again.
int64_t unfreeze(Module& module, const std::string& pattern = "**");

}  // namespace vitrine::nn
