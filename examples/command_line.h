// Options from a command line and a configuration file; the frame of a program that has them.
#pragma once

#include <CLI/CLI.hpp>

#include <cstdio>
#include <deque>
#include <iostream>
#include <optional>
#include <string>
#include <vector>

#include "core/version.h"
#include "nn/config_file.h"
#include "nn/options.h"
#include "nn/training/interrupt.h"

namespace vitrine::examples {

/// Prints. Whether standard output has taken all is checked by run_program, so that a full disk
/// costs no training.
template <class... Args>
void say(std::FILE* stream, fmt::format_string<Args...> format, Args&&... args) {
  std::fputs(fmt::format(format, std::forward<Args>(args)...).c_str(), stream);
}

/// A command line with a flag for each option of a list, --config, --help and --version.
class CommandLine {
 public:
  /// `examples` end the help.
  CommandLine(const std::string& program, const std::string& purpose, const std::string& examples)
      : app_(purpose, program) {
    app_.footer("Examples:\n" + examples);
    app_.set_version_flag("--version", fmt::format("{} of Vitrine {}", program, version()));
    app_.allow_extras();
  }
  /// A required argument without a flag.
  void argument(const std::string& name, std::string& value, const std::string& help) {
    app_.add_option(name, value, help)->required()->type_name("");
  }
  /// Reads the file that --config names, then the flags. What is wrong is an error. The exit code,
  /// if the program is to end here: after --help, or without a required value.
  std::optional<int> parse(nn::OptionList& options, int argc, char** argv) {
    std::string config;
    app_.add_option("--config", config, "a file with options as name = value, a line each; flags go first")
        ->type_name("");
    for (const nn::Option& option : options) add(option);
    try {
      app_.parse(argc, argv);
    } catch (const CLI::ParseError& error) {
      return app_.exit(error);
    }
    refuse_unknown(options);
    if (!config.empty()) read_config(config, options);
    auto flag = flags_.begin();
    for (nn::Option& option : options) {
      std::vector<std::string> texts = (*flag++)->results();
      if (texts.empty()) continue;
      if (option.kind != nn::Option::Kind::list) texts = {texts.back()};  // of a flag given twice
      option.read(texts, "--" + option.name);
    }
    return std::nullopt;
  }

 private:
  void add(const nn::Option& option) {
    const std::string flag = "--" + option.name + (option.alias.empty() ? "" : ",--" + option.alias),
                      names = fmt::format("{}", fmt::join(option.names, ", "));
    const std::string help = names.empty() ? option.help : option.help + ": " + names;
    CLI::Option* added = nullptr;
    if (option.kind == nn::Option::Kind::flag) {
      added = app_.add_flag(flag, help);
    } else {
      added = app_.add_option(flag, values_.emplace_back(), help)->type_name("");
      const bool list = option.kind == nn::Option::Kind::list;
      if (list) added->delimiter(',');
      if (!list) added->expected(1)->take_last()->allow_extra_args(false);
      added->default_str(option.default_text.empty() ? fmt::format("{}", fmt::join(option.values(), ","))
                                                     : option.default_text);
    }
    flags_.push_back(added->group(option.group));
  }
  void refuse_unknown(const nn::OptionList& options) const {
    const std::vector<std::string> unknown = app_.remaining();
    if (unknown.empty()) return;
    std::vector<std::string> known = {"--config", "--help", "--version"};
    for (const std::string& name : options.names()) known.push_back("--" + name);
    const std::string word = unknown[0].substr(0, unknown[0].find('='));
    fail("there is no option {}{}", word, did_you_mean(word, known));
  }

  CLI::App app_;
  std::deque<std::vector<std::string>> values_;  ///< CLI11 writes them
  std::vector<CLI::Option*> flags_;              ///< in the order of the options
};

/// Runs `body`, which returns the exit code, to the end of a program: an error is printed after the
/// program's name, and the code after a signal is the one of shells. Standard output that cannot be
/// written is an error.
template <class Body>
int run_program(const char* program, Body body) {
  int code = 0;
  try {
    code = body();
  } catch (const std::exception& error) {
    say(stderr, "{}: {}\n", program, error.what());
    code = 1;
  }
  if (code == 0 && nn::training::interrupted()) code = 128 + nn::training::caught_signal();
  std::cout.flush();  // CLI11 prints help there
  if (std::fflush(stdout) != 0 || std::ferror(stdout) != 0) {
    say(stderr, "{}: cannot write to standard output\n", program);
    if (code == 0) code = 1;
  }
  return code;
}

}  // namespace vitrine::examples
