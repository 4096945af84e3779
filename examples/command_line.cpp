#include "examples/command_line.h"

#include <CLI/CLI.hpp>

#include <climits>
#include <deque>
#include <iostream>

#include "core/version.h"
#include "nn/config_file.h"
#include "nn/training/interrupt.h"

namespace vitrine::examples {
namespace {

constexpr int kWrongUsage = 2;

/// ": layer, rms", ", in [0, 1)" or " (at least 1)"; empty: any value.
std::string allowed_values(const nn::Option& option) {
  const std::string range = option.range();
  if (!option.names.empty()) return fmt::format(": {}", fmt::join(option.names, ", "));
  if (range.empty()) return "";
  return range.find(',') == std::string::npos ? " (" + range + ")" : ", in " + range;
}

}  // namespace

struct CommandLine::Parser {
  Parser(const std::string& program, const std::string& purpose, const std::string& examples)
      : app(purpose, program) {
    app.footer("Examples:\n" + examples);
    app.set_version_flag("--version", fmt::format("{} of Vitrine {}", program, version()));
    app.allow_extras();
  }

  std::optional<int> parse(nn::OptionList& options, int argc, char** argv) {
    std::string config;
    app.add_option("--config", config, "a file with options as name = value, a line each; flags go first")
        ->type_name("");
    for (const nn::Option& option : options) add(option);
    try {
      app.parse(argc, argv);
    } catch (const CLI::ParseError& error) {
      return app.exit(error) == 0 ? 0 : kWrongUsage;
    }
    refuse_unknown(options);
    check(words == nullptr || std::ssize(*words) <= most_words, "{} is surplus, wanted at most {}",
          words == nullptr || words->empty() ? "" : words->back(),
          most_words == 1 ? "one argument" : fmt::format("{} arguments", most_words));
    if (!config.empty()) read_config(config, options);
    auto flag = flags.begin();
    for (nn::Option& option : options) {
      std::vector<std::string> texts = (*flag++)->results();
      if (texts.empty()) continue;
      // The last of a repeated flag
      if (option.kind != nn::Option::Kind::list) texts = {texts.back()};
      option.read(texts, "--" + option.name);
    }
    return std::nullopt;
  }

  CLI::App app;
  std::deque<std::vector<std::string>> values;  // written by CLI11
  std::vector<std::string>* words = nullptr;    // the arguments without flags
  int most_words = 0;
  std::vector<CLI::Option*> flags;  // in the order of the options

 private:
  void add(const nn::Option& option) {
    const std::string flag = "--" + option.name + (option.alias.empty() ? "" : ",--" + option.alias),
                      help = option.help + allowed_values(option);
    CLI::Option* added = nullptr;
    if (option.kind == nn::Option::Kind::flag) {
      added = app.add_flag(flag, help);
    } else {
      added = app.add_option(flag, values.emplace_back(), help)->type_name("");
      const bool list = option.kind == nn::Option::Kind::list;
      if (list) added->delimiter(',');
      if (!list) added->expected(1)->take_last()->allow_extra_args(false);
      const std::string value = fmt::format("{}", fmt::join(option.values(), ","));
      added->default_str(value.empty() ? option.default_text : value);
    }
    flags.push_back(added->group(option.group));
  }
  void refuse_unknown(const nn::OptionList& options) const {
    const std::vector<std::string> unknown = app.remaining();
    if (unknown.empty()) return;
    std::vector<std::string> known = {"--config", "--help", "--version"};
    for (const std::string& name : options.names()) known.push_back("--" + name);
    const std::string word = unknown[0].substr(0, unknown[0].find('='));
    fail("there is no option {}{}", word, did_you_mean(word, known));
  }
};

CommandLine::CommandLine(const std::string& program, const std::string& purpose, const std::string& examples)
    : parser_(std::make_unique<Parser>(program, purpose, examples)) {}

CommandLine::~CommandLine() = default;

void CommandLine::arguments(const std::string& name, std::vector<std::string>& values,
                            const std::string& help, int least, int most) {
  if (most == 0) return;
  parser_->words = &values;
  parser_->most_words = most;
  parser_->app.add_option(name, values, help)->required(least > 0)->expected(least, INT_MAX)->type_name("");
}

std::optional<int> CommandLine::parse(nn::OptionList& options, int argc, char** argv) {
  try {
    return parser_->parse(options, argc, argv);
  } catch (const Error& error) {
    say(stderr, "{}: {}\n", parser_->app.get_name(), error.what());
    return kWrongUsage;
  }
}

int run_program(const char* program, const std::function<int()>& body) {
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
