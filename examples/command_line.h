// Options from a command line and a configuration file, and the main function of programs with such
// options.
#pragma once

#include <CLI/CLI.hpp>

#include <climits>
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
  CommandLine(const std::string& program, const std::string& purpose, const std::string& examples)
      : app_(purpose, program) {
    app_.footer("Examples:\n" + examples);
    app_.set_version_flag("--version", fmt::format("{} of Vitrine {}", program, version()));
    app_.allow_extras();
  }
  /// Adds arguments without flags, `least` to `most` of them.
  void arguments(const std::string& name, std::vector<std::string>& values, const std::string& help,
                 int least, int most) {
    if (most == 0) return;
    words_ = &values;
    most_words_ = most;
    app_.add_option(name, values, help)->required(least > 0)->expected(least, INT_MAX)->type_name("");
  }
  /// Reads the file that --config names, then the flags. Returns the exit code if the program must
  /// end here: 0 after --help, and 2 after invalid input, of which it prints what is wrong.
  std::optional<int> parse(nn::OptionList& options, int argc, char** argv) {
    try {
      return parse_or_throw(options, argc, argv);
    } catch (const Error& error) {
      say(stderr, "{}: {}\n", app_.get_name(), error.what());
      return kWrongUsage;
    }
  }

 private:
  static constexpr int kWrongUsage = 2;

  std::optional<int> parse_or_throw(nn::OptionList& options, int argc, char** argv) {
    std::string config;
    app_.add_option("--config", config, "a file with options as name = value, a line each; flags go first")
        ->type_name("");
    for (const nn::Option& option : options) add(option);
    try {
      app_.parse(argc, argv);
    } catch (const CLI::ParseError& error) {
      return app_.exit(error) == 0 ? 0 : kWrongUsage;
    }
    refuse_unknown(options);
    check(words_ == nullptr || std::ssize(*words_) <= most_words_, "{} is surplus, wanted at most {}",
          words_ == nullptr || words_->empty() ? "" : words_->back(),
          most_words_ == 1 ? "one argument" : fmt::format("{} arguments", most_words_));
    if (!config.empty()) read_config(config, options);
    auto flag = flags_.begin();
    for (nn::Option& option : options) {
      std::vector<std::string> texts = (*flag++)->results();
      if (texts.empty()) continue;
      // The last of a repeated flag
      if (option.kind != nn::Option::Kind::list) texts = {texts.back()};
      option.read(texts, "--" + option.name);
    }
    return std::nullopt;
  }

  /// ": layer, rms", ", in [0, 1)" or " (at least 1)"; empty: any value.
  static std::string allowed_values(const nn::Option& option) {
    const std::string range = option.range();
    if (!option.names.empty()) return fmt::format(": {}", fmt::join(option.names, ", "));
    if (range.empty()) return "";
    return range.find(',') == std::string::npos ? " (" + range + ")" : ", in " + range;
  }
  void add(const nn::Option& option) {
    const std::string flag = "--" + option.name + (option.alias.empty() ? "" : ",--" + option.alias),
                      help = option.help + allowed_values(option);
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
  std::deque<std::vector<std::string>> values_;  ///< written by CLI11
  std::vector<std::string>* words_ = nullptr;    ///< the arguments without flags
  int most_words_ = 0;
  std::vector<CLI::Option*> flags_;  ///< in the order of the options
};

/// Runs `body`, which returns the exit code of the program. An error is printed after the name of
/// the program. After a signal the exit code is that of a shell. A failure to write standard output
/// is an error.
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
