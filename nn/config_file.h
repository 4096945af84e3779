// Configuration files: options as name = value, a line each.
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

/// Reads the file into the options. A name without a value is a flag. Lists, with or without
/// brackets, are for options that take several values. In double quotes \n, \r, \t, \" and \\ are
/// escapes; single quotes have none. A line that is anything else, an unknown option and a value
/// that is not allowed are errors that name the line.
void read_config(const std::string& path, OptionList& options);

/// A file that read_config reads: all options that apply and have a value, by groups, after
/// `comment`.
std::string config_text(const OptionList& options, const std::string& comment);
/// Writes config_text to a file, whole or not at all.
void write_config(const std::string& path, const OptionList& options, const std::string& comment);

}  // namespace vitrine::nn
