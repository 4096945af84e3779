// Options from a command line and a configuration file, and the main function of programs with such
// options.
#pragma once

#include <fmt/format.h>

#include <cstdio>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "nn/options.h"

namespace vitrine::examples {

/// Prints to `stream` without checking for errors. run_program checks standard output at the end,
/// so that a full disk does not stop a training.
template <class... Args>
void say(std::FILE* stream, fmt::format_string<Args...> format, Args&&... args) {
  std::fputs(fmt::format(format, std::forward<Args>(args)...).c_str(), stream);
}

/// A command line with a flag for each option of a list, --config, --help and --version.
class CommandLine {
 public:
  /// `examples` is the end of the help.
  CommandLine(const std::string& program, const std::string& purpose, const std::string& examples);
  ~CommandLine();
  /// Adds arguments without flags, `least` to `most` of them.
  void arguments(const std::string& name, std::vector<std::string>& values, const std::string& help,
                 int least, int most);
  /// Reads the file that --config names, then the flags. Returns the exit code if the program must
  /// end here: 0 after --help, and 2 after invalid input, of which it prints what is wrong.
  std::optional<int> parse(nn::OptionList& options, int argc, char** argv);

 private:
  struct Parser;  // CLI11, which takes seconds to compile, is included by one file alone
  std::unique_ptr<Parser> parser_;
};

/// Runs `body`, which returns the exit code of the program. An error is printed after the name of
/// the program. After a signal the exit code is that of a shell. A failure to write standard output
/// is an error.
int run_program(const char* program, const std::function<int()>& body);

/// Quotes a path for a shell.
inline std::string quoted(const std::string& path) {
  std::string text;
  for (const char c : path) text += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return "'" + text + "'";
}

}  // namespace vitrine::examples
