// Configuration files: options as `name = value`, one per line.
//
//   # a comment, which may also begin with ;
//   steps = 2000
//   prompt = "a # in quotes\n"
//   compare = [standard, "softcap=20"]
//   nesterov
#pragma once

#include <string>

#include "nn/options.h"

namespace vitrine::nn {

/// Reads the options from the file. A name without a value sets a flag. Options that take several
/// values accept a list, with or without brackets. Double-quoted text may contain the escapes \n,
/// \r, \t, \" and \\; single-quoted text has no escapes. Errors, which name the line: any other
/// line, an unknown option, a value that is not allowed.
void read_config(const std::string& path, OptionList& options);

/// The text of a file that read_config can read: `comment`, then all options that apply and have a
/// value, by group.
std::string config_text(const OptionList& options, const std::string& comment);
/// Writes config_text to a file. The write is atomic: the file is replaced as a whole or not at
/// all.
void write_config(const std::string& path, const OptionList& options, const std::string& comment);

}  // namespace vitrine::nn
