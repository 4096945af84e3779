#include "nn/transformer/mixers.h"

#include <algorithm>
#include <deque>
#include <sstream>
#include <utility>

#include "nn/attention/names.h"
#include "nn/transformer/mixer_rows.h"

namespace vitrine::nn {
namespace {

std::vector<MixerRow> library_rows() {
  std::vector<MixerRow> rows = attention_rows();
  for (MixerRow& row : other_rows()) rows.push_back(std::move(row));
  return rows;
}

/// A deque, because adding rows must not move the others.
std::deque<MixerRow>& table() {
  static std::deque<MixerRow> rows = [] {
    auto own = library_rows();
    return std::deque<MixerRow>(std::make_move_iterator(own.begin()), std::make_move_iterator(own.end()));
  }();
  return rows;
}

const MixerRow* find_base(const std::string& name) {
  const auto& rows = table();
  const auto found =
      std::find_if(rows.begin(), rows.end(), [&](const auto& row) { return row.name == name; });
  return found == rows.end() ? nullptr : &*found;
}

bool is_part(const std::string& name) {
  const auto parts = attention_part_table();
  return std::any_of(parts.begin(), parts.end(), [&](const auto* part) { return part->name == name; });
}

}  // namespace

std::string MixerName::text() const {
  if (parts.parts.empty()) return base_text;
  return (base == &table().front() ? "" : base_text + "+") + parts.text();
}

MixerName parse_mixer(const std::string& name) {
  MixerName result{nullptr, {}};
  std::vector<std::string> others;
  std::stringstream pieces(name);
  for (std::string piece; std::getline(pieces, piece, '+');) {
    const MixerRow* const base = find_base(piece.substr(0, piece.find('=')));
    if (base == nullptr) {
      others.push_back(piece);
      continue;
    }
    check(!is_part(base->name), "mixer: {} is a base, and an attention part is registered with this name",
          base->name);
    check(result.base == nullptr, "mixer: {} has two bases, {} and {}; wanted one", name,
          result.base ? result.base->name : "", base->name);
    result.base = base;
    result.values = option_values(piece, base->options);
    result.base_text = piece;
  }
  std::vector<KnownName> bases;
  for (const MixerRow& row : table()) bases.push_back({row.name, row.help});
  if (!others.empty() || result.base == nullptr || name.ends_with('+'))
    result.parts = parse_parts(others, name, bases);
  if (result.base == nullptr) result.base = &table().front(), result.base_text = result.base->name;
  check_stages(result.base->name, result.parts, result.base->stages);
  return result;
}

namespace {

/// The base must be an attention.
std::unique_ptr<MultiHeadAttention> make_heads(const MixerOptions& options, const MixerName& name) {
  return std::make_unique<MultiHeadAttention>(options, [name](const MixerOptions& o) {
    return name.base->attention(name.parts, {o.heads, o.width / o.heads, o.context, o.layer}, name.values);
  });
}

}  // namespace

std::unique_ptr<Mixer> make_mixer(const MixerOptions& options) {
  const MixerName name = parse_mixer(options.name);
  check(
      name.base->causal || !options.causal,
      "mixer: {} cannot hide later positions; wanted a mixer that is not causal, as in an encoder, or another "
      "base such as linear",
      name.base->name);
  check(name.base->key_heads || options.key_heads == 0,
        "mixer: there are {} heads of keys, and {} has none of its own; wanted key_heads = 0",
        options.key_heads, name.base->name);
  if (name.base->make) return name.base->make(options, name.parts, name.values);
  return make_heads(options, name);
}

std::unique_ptr<MultiHeadAttention> make_cross_attention(MixerOptions options) {
  options.name = cross_attention_of(options);
  return make_heads(options, parse_mixer(options.name));
}

void register_mixer(MixerRow row) {
  check(!row.name.empty() && row.name.find_first_of("+=:, ") == std::string::npos,
        "register_mixer: `{}` is no name: wanted letters without + = : , or spaces", row.name);
  check(find_base(row.name) == nullptr && !is_part(row.name),
        "register_mixer: there is a base or a part {} already", row.name);
  check((row.attention == nullptr) != (row.make == nullptr),
        "register_mixer: {} needs one function, that of an attention or that of another mixer", row.name);
  table().push_back(std::move(row));
}

std::vector<const MixerRow*> mixer_table(bool registered) {
  std::vector<const MixerRow*> rows;
  for (const MixerRow& row : table()) rows.push_back(&row);
  if (!registered) rows.resize(library_rows().size());
  return rows;
}

std::string mixer_help() {
  std::string text;
  for (const MixerRow& row : table()) text += help_lines(row.name, row.help, row.source, row.options);
  return text + attention_parts();
}

std::string cross_attention_of(const MixerOptions& o) {
  const MixerName name = parse_mixer(o.name);
  MixerName cross = name;
  if (name.base->make) cross.base = &table().front(), cross.base_text = cross.base->name;
  cross.parts = {};
  const AttentionSizes sizes{o.heads, o.width / o.heads, o.context};
  for (const PartChoice& part : name.parts.parts)
    if (!shares_positions(*part.row, *part.row->make(sizes, part.values))) cross.parts.parts.push_back(part);
  return cross.text();
}

bool has_key_heads(const std::string& name) { return parse_mixer(name).base->key_heads; }

bool brings_positions(const MixerOptions& o) {
  const MixerName name = parse_mixer(o.name);
  return name.base->positions || brings_positions(name.parts, {o.heads, o.width / o.heads, o.context});
}

bool depends_on_order(const MixerOptions& o) {
  const MixerName name = parse_mixer(o.name);
  const AttentionSizes sizes{o.heads, o.width / o.heads, o.context};
  return name.base->positions || name.base->order ||
         std::any_of(name.parts.parts.begin(), name.parts.parts.end(), [&](const PartChoice& part) {
           return shares_positions(*part.row, *part.row->make(sizes, part.values));
         });
}

}  // namespace vitrine::nn
