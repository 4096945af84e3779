// A subcommand of the program `vitrine`, and the table of all of them.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "examples/command_line.h"
#include "nn/options.h"

namespace vitrine::examples {

/// The arguments of a subcommand that have no flag, at least `least` and at most `most` of them.
struct Words {
  std::string name = {}, help = {};
  int least = 0, most = 0;
  std::vector<std::string> first = {};  ///< what the first may be, for completion; empty: a file
};

/// A subcommand. Help, flags and shell completion come from its list of options.
struct Command {
  std::string name, purpose;
  std::string examples;  ///< the end of its help
  Words words;
  /// Its options, for completion. They may not be read or written, as their members are gone.
  std::function<std::vector<nn::Option>()> options;
  /// Runs it and returns the exit code. `program` begins its messages: "vitrine train".
  std::function<int(const std::string& program, int argc, char** argv)> run;
};

/// What the body of a subcommand gets.
struct Call {
  std::string program;
  nn::OptionList& options;  ///< of the settings, as the command line has filled them
  std::vector<std::string> words;
};

/// A subcommand with the options of a structure. `body` returns the exit code.
template <class Settings>
Command make_command(std::string name, std::string purpose, std::string examples, Words words,
                     int (*body)(Settings& settings, const Call& call)) {
  const auto options = [] {
    Settings settings;
    const nn::OptionList list = nn::options_of(settings);
    return std::vector<nn::Option>(list.begin(), list.end());
  };
  const auto run = [=](const std::string& program, int argc, char** argv) {
    return run_program(program.c_str(), [&] {
      Settings settings;
      nn::OptionList list = nn::options_of(settings);
      CommandLine line(program, purpose, examples);
      Call call{program, list, {}};
      line.arguments(words.name, call.words, words.help, words.least, words.most);
      if (const auto code = line.parse(list, argc, argv)) return *code;
      return body(settings, call);
    });
  };
  return {name, purpose, examples, words, options, run};
}

Command train_command();
Command sample_command();
Command check_command();
Command inspect_command();
Command compare_command();
Command tokenize_command();
Command translate_command();
Command convert_command();
Command search_command();
Command completion_command();

/// All subcommands, in the order of the help.
std::vector<Command> commands();

/// The checkpoint that a path names: the file itself, or that of a run folder.
std::string checkpoint_in(const std::string& path);

}  // namespace vitrine::examples
