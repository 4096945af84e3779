// Attention by name: the table of parts, and the parser of names.
#include "nn/attention/names.h"

#include <algorithm>
#include <cmath>
#include <deque>
#include <sstream>

#include "core/names.h"
#include "nn/attention/composed.h"
#include "nn/attention/parts/rows.h"

namespace vitrine::nn {
namespace {

using Row = AttentionPartRow;

const char* const kBase = "standard";

std::vector<Row> library_rows() {
#define VITRINE_ROW(name) parts::name(),
  return {VITRINE_ATTENTION_PARTS(VITRINE_ROW)};
#undef VITRINE_ROW
}

/// A deque, because adding rows must not move the others.
std::deque<Row>& table() {
  static std::deque<Row> rows = [] {
    const auto own = library_rows();
    return std::deque<Row>(own.begin(), own.end());
  }();
  return rows;
}

const Row* find_row(const std::string& name) {
  const auto& rows = table();
  const auto found = std::find_if(rows.begin(), rows.end(), [&](const Row& row) { return row.name == name; });
  return found == rows.end() ? nullptr : &*found;
}

/// The bases and the parts, one per line.
std::string known_names(const std::vector<KnownName>& bases) {
  std::string text;
  for (const KnownName& base : bases) text += help_lines(base.name, base.help, "", {});
  return text + attention_parts();
}

[[noreturn]] void fail_unknown(const std::string& name, const std::string& whole,
                               const std::vector<KnownName>& bases) {
  std::vector<std::string> known;
  for (const KnownName& base : bases) known.push_back(base.name);
  for (const Row& row : table()) known.push_back(row.name);
  fail("attention: there is no part {} in {}{}\nKnown are:\n{}", name, whole, did_you_mean(name, known),
       known_names(bases));
}

/// NaN if the text is not a finite number.
double to_number(const std::string& text) {
  size_t used = 0;
  double number = 0;
  try {
    number = std::stod(text, &used);
  } catch (const std::exception&) {
  }
  return used > 0 && used == text.size() && std::isfinite(number) ? number : NAN;
}

bool takes(const PartOption& option, const std::string& text) {
  if (std::find(option.words.begin(), option.words.end(), text) != option.words.end()) return true;
  const double number = to_number(text);
  return option.number && number > option.above && number >= option.least &&
         (!option.whole || number == std::floor(number));
}

/// "a finite number above 0", "a number from 2 on, or visible".
std::string values_of(const PartOption& option) {
  const std::string words = fmt::format("{}", fmt::join(option.words, " or "));
  if (!option.number) return words;
  const std::string kind = option.whole ? "whole number" : option.least > 0 ? "number" : "finite number";
  const std::string number = option.least > 0 ? fmt::format("a {} from {} on", kind, option.least)
                                              : fmt::format("a {} above {}", kind, option.above);
  return words.empty() ? number : number + ", or " + words;
}

PartValues with_initial_values(const std::string& name, const std::vector<PartOption>& options,
                               std::map<std::string, std::string> given) {
  for (const PartOption& o : options)
    if (!given.contains(o.name)) {
      check(o.optional || !o.initial.empty(), "attention: {} needs a value, as {}=2: {}, {}", name, name,
            o.help, values_of(o));
      given[o.name] = o.initial;
    }
  return PartValues(std::move(given));
}

/// Parses options, such as "interleaved:theta=500000".
PartValues read_options(const std::string& name, const std::vector<PartOption>& options,
                        const std::string& text) {
  std::map<std::string, std::string> given;
  std::stringstream items(text + ':');  // so that an empty text is an empty item
  for (std::string item; std::getline(items, item, ':');) {
    const size_t sign = item.find('=');
    const std::string value = sign == std::string::npos ? item : item.substr(sign + 1);
    const auto named = [&](const PartOption& o) { return o.name == item.substr(0, sign); };
    const auto unused = [&](const PartOption& o) { return !given.contains(o.name) && takes(o, value); };
    auto found = sign == std::string::npos ? std::find_if(options.begin(), options.end(), unused)
                                           : std::find_if(options.begin(), options.end(), named);
    if (found == options.end() && sign == std::string::npos && options.size() == 1) found = options.begin();
    std::vector<std::string> known, words;
    for (const PartOption& o : options) {
      known.push_back(fmt::format("{} ({})", o.name, values_of(o)));
      words.push_back(o.name);
      words.insert(words.end(), o.words.begin(), o.words.end());
    }
    check(found != options.end(), "attention: {} has no option {}; it has {}{}", name, item,
          fmt::join(known, ", "), did_you_mean(item.substr(0, sign), words));
    check(takes(*found, value), "attention: {}: {} is {}, wanted {}", name, found->name, value,
          values_of(*found));
    check(given.emplace(found->name, value).second, "attention: {}: {} is given twice", name, found->name);
  }
  return with_initial_values(name, options, std::move(given));
}

/// What this part owns exclusively in a name: a stage with one owner, or the row's `owns`.
std::string owned_by(const Row& row) {
  switch (row.stage) {
    case Stage::score: return "the scores";
    case Stage::scale: return "the scale of the scores";
    case Stage::normalize: return "the normalization of the weights";
    case Stage::read: return "the read of the values";
    default: return row.owns;
  }
}

void check_owners(const std::vector<PartChoice>& parts) {
  for (size_t i = 0; i < parts.size(); ++i)
    for (size_t j = 0; j < i; ++j)
      check(owned_by(*parts[i].row).empty() || owned_by(*parts[i].row) != owned_by(*parts[j].row),
            "attention: {} and {} exclude each other: both change {}", parts[j].row->name, parts[i].row->name,
            owned_by(*parts[i].row));
}

}  // namespace

std::vector<const AttentionPartRow*> attention_part_table(bool registered) {
  std::vector<const Row*> rows;
  for (const Row& row : table()) rows.push_back(&row);
  if (!registered) rows.resize(library_rows().size());
  return rows;
}

void register_attention_part(AttentionPartRow row) {
  check(!row.name.empty() && row.name.find_first_of("+=:, ") == std::string::npos,
        "register_attention_part: `{}` is no name: wanted letters without + = : , or spaces", row.name);
  check(find_row(row.name) == nullptr && row.name != kBase,
        "register_attention_part: there is a part {} already", row.name);
  check(row.make != nullptr, "register_attention_part: {} has no function that makes it", row.name);
  table().push_back(std::move(row));
}

std::string help_lines(const std::string& name, const std::string& help, const std::string& source,
                       const std::vector<PartOption>& options) {
  std::string text =
      fmt::format("  {:<12} {}{}\n", name, help, source.empty() ? "" : fmt::format(" ({})", source));
  if (options.size() > 1)
    for (const PartOption& o : options)
      text += fmt::format("  {:<12}   {}: {}; {}\n", "", o.name, o.help, values_of(o));
  return text;
}

namespace {

const char* name_of(Stage stage) {
  switch (stage) {
    case Stage::prepare: return "queries, keys or values";
    case Stage::extend: return "keys and values";
    case Stage::score:
    case Stage::modify: return "scores";
    case Stage::scale: return "scale of scores";
    case Stage::mask: return "mask";
    case Stage::normalize: return "normalization of weights";
    case Stage::reweight: return "weights";
    case Stage::read: return "read of the values";
    case Stage::combine: return "heads";
  }
  return "";
}

}  // namespace

void check_stages(const std::string& base, const AttentionName& parts, const std::vector<Stage>& accepted) {
  for (const PartChoice& part : parts.parts)
    check(std::find(accepted.begin(), accepted.end(), part.row->stage) != accepted.end(),
          "mixer: {} takes no part {}: {}", base, part.row->name,
          accepted.empty() ? base + " computes all of its steps itself"
                           : fmt::format("no part can change its {}", name_of(part.row->stage)));
}

std::string attention_parts() {
  std::string text;
  for (const Row& row : table()) text += help_lines(row.name, row.help, row.source, row.options);
  return text;
}

PartValues option_values(const std::string& piece, const std::vector<PartOption>& options) {
  const size_t sign = piece.find('=');
  const std::string name = piece.substr(0, sign);
  if (sign == std::string::npos) return with_initial_values(name, options, {});
  check(!options.empty(), "attention: {} takes no value", name);
  return read_options(name, options, piece.substr(sign + 1));
}

std::string AttentionName::text() const {
  std::vector<std::string> texts;
  for (const PartChoice& part : parts) texts.push_back(part.text);
  return texts.empty() ? kBase : fmt::format("{}", fmt::join(texts, "+"));
}

AttentionName parse_parts(const std::vector<std::string>& pieces, const std::string& whole,
                          const std::vector<KnownName>& bases) {
  check(!whole.empty(), "attention: the name is empty; wanted parts joined by +:\n{}", known_names(bases));
  check(!whole.ends_with('+'), "attention: wanted a part after the last + of {}", whole);
  AttentionName result;
  std::vector<std::string> seen;
  for (const std::string& piece : pieces) {
    const std::string key = piece.substr(0, piece.find('='));
    check(std::find(seen.begin(), seen.end(), key) == seen.end(), "attention: {} is twice in {}", key, whole);
    seen.push_back(key);
    const auto is_base = [&](const KnownName& base) { return base.name == key; };
    check(std::none_of(bases.begin(), bases.end(), is_base), "attention: {} takes no value", key);
    const Row* const row = find_row(key);
    if (row == nullptr) fail_unknown(key, whole, bases);
    result.parts.push_back({row, option_values(piece, row->options), piece});
  }
  std::stable_sort(result.parts.begin(), result.parts.end(), [](const PartChoice& x, const PartChoice& y) {
    return std::pair(x.row->stage, x.row->rank) < std::pair(y.row->stage, y.row->rank);
  });
  check_owners(result.parts);
  return result;
}

AttentionName parse_attention(const std::string& name) {
  std::vector<std::string> pieces;
  std::stringstream stream(name);
  bool based = false;
  for (std::string piece; std::getline(stream, piece, '+');) {
    check(piece != kBase || !based, "attention: {} is twice in {}", kBase, name);
    if (piece == kBase)
      based = true;
    else
      pieces.push_back(piece);
  }
  return parse_parts(pieces, name, {{kBase, "dot product attention"}});
}

std::unique_ptr<Attention> make_attention(const std::string& name, const AttentionSizes& sizes) {
  return std::make_unique<ComposedAttention>(parse_attention(name), sizes.heads, sizes.head_size,
                                             sizes.context);
}

bool brings_positions(const AttentionName& name, const AttentionSizes& sizes) {
  for (const PartChoice& part : name.parts)
    if (part.row->make(sizes, part.values)->traits().positions) return true;
  return false;
}

}  // namespace vitrine::nn
