#include "nn/config_file.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>

#include "core/files/file.h"

namespace vitrine::nn {
namespace {

const std::string_view kBlanks = " \t\r";
/// The characters that need an escape in double quotes, and the letter of each escape.
const std::pair<char, char> kEscapes[] = {{'\n', 'n'}, {'\r', 'r'}, {'\t', 't'}, {'"', '"'}, {'\\', '\\'}};

bool is_blank(char c) { return kBlanks.find(c) != std::string_view::npos; }
bool is_comment(char c) { return c == '#' || c == ';'; }

/// The rest of a line. Each function removes something from its beginning.
class Line {
 public:
  Line(std::string_view text, std::string where) : rest_(text), where_(std::move(where)) { skip_blanks(); }

  const std::string& where() const { return where_; }
  void want(bool condition, const std::string& what) const {
    check(condition, "{}: wanted {}, before \"{}\"", where_, what, rest_);
  }
  /// A comment starts at the beginning of the line or after a blank.
  bool at_end() const { return rest_.empty() || is_comment(rest_.front()); }
  bool take(char c) {
    const bool here = rest_.starts_with(c);
    if (here) rest_.remove_prefix(1), skip_blanks();
    return here;
  }
  std::string name() {
    const size_t length = std::min(rest_.find_first_of(" \t\r=#;"), rest_.size());
    std::string result(rest_.substr(0, length));
    want(length > 0 && result.find_first_of("[]\"'") == std::string::npos,
         "the name of an option (there are no sections)");
    rest_.remove_prefix(length), skip_blanks();
    return result;
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

 private:
  void skip_blanks() { rest_.remove_prefix(std::min(rest_.find_first_not_of(kBlanks), rest_.size())); }

  std::string value(std::string_view ends) {
    std::string result = rest_.starts_with('"') || rest_.starts_with('\'') ? quoted() : bare(ends);
    skip_blanks();
    return result;
  }
  std::string quoted() {
    const char quote = rest_.front();
    std::string result;
    size_t i = 1;
    for (; i < rest_.size() && rest_[i] != quote; ++i) {
      if (quote == '\'' || rest_[i] != '\\') {
        result += rest_[i];
        continue;
      }
      ++i;
      const auto* const escape = std::find_if(std::begin(kEscapes), std::end(kEscapes), [&](const auto& e) {
        return i < rest_.size() && e.second == rest_[i];
      });
      want(escape != std::end(kEscapes), "\\n, \\r, \\t, \\\" or \\\\ after a \\ in double quotes");
      result += escape->first;
    }
    want(i < rest_.size(), "the end of a text in quotes");
    rest_.remove_prefix(i + 1);
    return result;
  }
  /// Text without quotes: it extends to one of `ends`, or to a comment.
  std::string bare(std::string_view ends) {
    size_t length = 0;
    while (length < rest_.size() && ends.find(rest_[length]) == std::string_view::npos &&
           !(is_comment(rest_[length]) && (length == 0 || is_blank(rest_[length - 1]))))
      ++length;
    std::string result(rest_.substr(0, length));
    while (!result.empty() && is_blank(result.back())) result.pop_back();
    want(!result.empty(), "a value");
    want(result.find_first_of("[]") == std::string::npos, "a value without brackets (or in quotes)");
    rest_.remove_prefix(length);
    return result;
  }

  std::string_view rest_;
  std::string where_;
};

void read_line(Line line, const std::string& path, OptionList& options) {
  if (line.at_end()) return;
  const std::string name = line.name();
  Option* const option = options.find(name);
  check(option != nullptr, "{}: there is no option {}{}", line.where(), name,
        did_you_mean(name, options.names()));
  line.want(!option->given.starts_with(path), name + " once");
  const auto values =
      line.take('=') ? line.values(option->kind == Option::Kind::list) : std::vector<std::string>{"true"};
  line.want(line.at_end(), "the end of the line");
  option->read(values, fmt::format("{}: {}", line.where(), name));
}

std::string quoted(const std::string& text) {
  std::string result = "\"";
  for (const char c : text) {
    const auto* const escape =
        std::find_if(std::begin(kEscapes), std::end(kEscapes), [&](const auto& e) { return e.first == c; });
    result += escape == std::end(kEscapes) ? std::string(1, c) : std::string{'\\', escape->second};
  }
  return result + '"';
}

std::string value_text(const std::string& value) {
  const bool plain = std::all_of(value.begin(), value.end(), [](unsigned char c) {
    return std::isalnum(c) || c == '_' || c == '.' || c == '+' || c == '-';
  });
  return plain && !value.empty() ? value : quoted(value);
}

/// An empty text is a value only if the option accepts it.
bool has_value(const Option& option, const std::vector<std::string>& values) {
  if (values.size() != 1 || !values[0].empty()) return !values.empty();
  return option.type.empty() && option.names.empty();
}

}  // namespace

void read_config(const std::string& path, OptionList& options) {
  check(!std::filesystem::is_directory(path), "{} is a folder, wanted a configuration file", path);
  std::ifstream in(path);
  check(in.good(), "cannot open the configuration file {}: {}", path, std::strerror(errno));
  std::string text;
  for (int number = 1; std::getline(in, text); ++number)
    read_line(Line(text, fmt::format("{}, line {}", path, number)), path, options);
}

std::string config_text(const OptionList& options, const std::string& comment) {
  std::string text = "# " + comment + "\n", group;
  for (const Option& option : options) {
    std::vector<std::string> values = option.values();
    if (!option.applies() || !has_value(option, values)) continue;
    if (option.group != group) text += fmt::format("\n# {}\n", group = option.group);
    for (std::string& value : values) value = value_text(value);
    const std::string joined = fmt::format("{}", fmt::join(values, ", "));
    text += fmt::format("{} = {}\n", option.name,
                        option.kind == Option::Kind::list ? "[" + joined + "]" : joined);
  }
  return text;
}

void write_config(const std::string& path, const OptionList& options, const std::string& comment) {
  const std::string text = config_text(options, comment);
  const std::string_view parts[] = {text};
  write_file("write_config", path, parts);
}

}  // namespace vitrine::nn
