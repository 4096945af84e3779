// Configuration files: the options of a command line as name = value, a line each.
//
//   # a comment
//   steps = 2000
//   prompt = "a # in quotes"
//   compare = [standard, "softcap=20"]
#pragma once

#include <CLI/CLI.hpp>

#include <string>
#include <string_view>
#include <vector>

#include "core/error.h"

namespace vitrine::examples {

/// Reads a configuration file for CLI11, whose own reader takes half a list for a number. A name
/// without a value is a flag. Lists in brackets are for options that take several values. What is
/// anything else is an error that names the line.
class ConfigFile : public CLI::ConfigBase {
 public:
  explicit ConfigFile(const CLI::App& app) : app_(app) {}

  std::vector<CLI::ConfigItem> from_config(std::istream& in) const override {
    std::vector<CLI::ConfigItem> items;
    std::string text;
    for (int number = 1; std::getline(in, text); ++number) {
      Line line{text, number};
      line.skip_blanks();
      if (line.at_end()) continue;
      CLI::ConfigItem item;
      item.name = line.name();
      for (const CLI::ConfigItem& before : items)
        line.want(before.name != item.name, fmt::format("{} once", item.name));
      item.inputs = line.take('=') ? line.values(takes_several(item.name)) : std::vector<std::string>{"true"};
      line.want(line.at_end(), "the end of the line");
      items.push_back(std::move(item));
    }
    return items;
  }

 private:
  bool takes_several(const std::string& name) const {
    const CLI::Option* const option = app_.get_option_no_throw("--" + name);
    return option != nullptr && option->get_items_expected_max() > 1;
  }

  struct Line {
    std::string_view rest;
    int number;

    void want(bool condition, const std::string& what) const {
      if (!condition)
        throw CLI::ConfigError(fmt::format("--config: line {} wants {}, before \"{}\"", number, what, rest),
                               CLI::ExitCodes::ConfigError);
    }
    void skip_blanks() { rest.remove_prefix(std::min(rest.find_first_not_of(" \t\r"), rest.size())); }
    /// A comment begins with # or ;, at the beginning of the line or after a blank.
    bool at_end() { return rest.empty() || rest.front() == '#' || rest.front() == ';'; }
    bool take(char c) {
      const bool here = rest.starts_with(c);
      if (here) rest.remove_prefix(1), skip_blanks();
      return here;
    }
    std::string name() {
      const size_t length = std::min(rest.find_first_of(" \t\r=#;"), rest.size());
      const std::string result(rest.substr(0, length));
      want(length > 0 && result.find_first_of("[]\"'") == std::string::npos,
           "the name of an option (there are no sections)");
      rest.remove_prefix(length), skip_blanks();
      return result;
    }
    std::string quoted() {
      const size_t end = rest.find(rest.front(), 1);
      want(end != std::string_view::npos, "the end of a text in quotes");
      const std::string result(rest.substr(1, end - 1));
      rest.remove_prefix(end + 1), skip_blanks();
      return result;
    }
    /// Text without quotes, up to one of `ends` or a comment.
    std::string bare(std::string_view ends) {
      size_t length = 0;
      const auto is_blank = [](char c) { return c == ' ' || c == '\t' || c == '\r'; };
      while (length < rest.size() && ends.find(rest[length]) == std::string_view::npos &&
             !((rest[length] == '#' || rest[length] == ';') && (length == 0 || is_blank(rest[length - 1]))))
        ++length;
      std::string result(rest.substr(0, length));
      while (!result.empty() && is_blank(result.back())) result.pop_back();
      want(!result.empty(), "a value");
      want(result.find_first_of("[]") == std::string::npos, "a value without brackets (or in quotes)");
      rest.remove_prefix(length);
      return result;
    }
    std::string value(std::string_view ends) {
      return rest.starts_with('"') || rest.starts_with('\'') ? quoted() : bare(ends);
    }
    std::vector<std::string> values(bool several) {
      if (!several) return {value("")};
      const bool brackets = take('[');
      std::vector<std::string> result;
      do result.push_back(value(",]"));
      while (take(','));
      want(!brackets || take(']'), "the ']' of a list");
      return result;
    }
  };

  const CLI::App& app_;
};

}  // namespace vitrine::examples
