#include "nn/transformer/mixers.h"

#include <algorithm>
#include <deque>
#include <sstream>
#include <utility>

#include "nn/attention/composed.h"
#include "nn/attention/differential.h"
#include "nn/attention/latent.h"
#include "nn/attention/lsh.h"
#include "nn/attention/transformer_xl.h"
#include "nn/recurrent/recurrent.h"

namespace vitrine::nn {
namespace {

const std::vector<Stage> kAllStages = {Stage::prepare, Stage::extend, Stage::score,     Stage::scale,
                                       Stage::modify,  Stage::mask,   Stage::normalize, Stage::reweight,
                                       Stage::read,    Stage::combine};
/// Those of one map of differential attention, whose values are wider than its keys.
const std::vector<Stage> kMapStages = {Stage::prepare,  Stage::score, Stage::scale,
                                       Stage::modify,   Stage::mask,  Stage::normalize,
                                       Stage::reweight, Stage::read,  Stage::combine};

template <class M>
std::unique_ptr<Mixer> make(const MixerOptions& options) {
  return std::make_unique<M>(options);
}

std::vector<MixerRow> library_rows() {
  return {
      {.name = "standard",
       .help = "scaled dot product, softmax, weighted mean",
       .source = "Vaswani et al. 2017",
       .stages = kAllStages,
       .attention =
           [](const AttentionName& parts, const AttentionSizes& sizes) {
             return std::make_unique<ComposedAttention>(parts, sizes.heads, sizes.head_size, sizes.context);
           }},
      {.name = "differential",
       .help = "the difference of two attention maps, normalized",
       .source = "Ye et al. 2024",
       .stages = kMapStages,
       .attention =
           [](const AttentionName& parts, const AttentionSizes& sizes) {
             return std::make_unique<DifferentialAttention>(parts, sizes);
           }},
      {.name = "lsh",
       .help = "attention within buckets of a hash, linear in the sequence",
       .source = "Kitaev et al. 2020",
       .padding = true,
       .make = make<LshAttention>},
      {.name = "transformer_xl",
       .help = "attention by distance to a segment and to the states of the one before",
       .source = "Dai et al. 2019",
       .positions = true,
       .padding = true,
       .make = make<TransformerXl>},
      {.name = "latent",
       .help = "keys and values of all heads from one short vector, which is cached",
       .source = "DeepSeek-AI 2024",
       .positions = true,
       .padding = true,
       .make = make<LatentAttention>},
      {.name = "lstm",
       .help = "long short-term memory, in place of attention",
       .source = "Hochreiter and Schmidhuber 1997",
       .positions = true,
       .make = make<Lstm>},
      {.name = "gru",
       .help = "gated recurrent unit, in place of attention",
       .source = "Cho et al. 2014",
       .positions = true,
       .make = make<Gru>},
  };
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

const char* name_of(Stage stage) {
  switch (stage) {
    case Stage::prepare: return "queries, keys or values";
    case Stage::extend: return "keys and values to extend";
    case Stage::score: return "scores";
    case Stage::scale: return "a scale of scores";
    case Stage::modify: return "scores to modify";
    case Stage::mask: return "mask of pairs of positions";
    case Stage::normalize: return "weights to normalize";
    case Stage::reweight: return "weights to change";
    case Stage::read: return "weights that read values";
    case Stage::combine: return "heads";
  }
  return "";
}

}  // namespace

std::string MixerName::text() const {
  if (parts.parts.empty()) return base->name;
  return (base == &table().front() ? "" : base->name + "+") + parts.text();
}

MixerName parse_mixer(const std::string& name) {
  MixerName result{nullptr, {}};
  std::vector<std::string> others;
  std::stringstream pieces(name);
  for (std::string piece; std::getline(pieces, piece, '+');) {
    const MixerRow* const base = find_base(piece);
    if (base == nullptr) {
      others.push_back(piece);
      continue;
    }
    check(result.base == nullptr, "mixer: {} has two bases, {} and {}; wanted one", name,
          result.base ? result.base->name : "", piece);
    result.base = base;
  }
  std::vector<KnownName> bases;
  for (const MixerRow& row : table()) bases.push_back({row.name, row.help});
  if (!others.empty() || result.base == nullptr || name.ends_with('+'))
    result.parts = parse_parts(others, name, bases);
  if (result.base == nullptr) result.base = &table().front();
  const auto& stages = result.base->stages;
  for (const PartChoice& part : result.parts.parts)
    check(std::find(stages.begin(), stages.end(), part.row->stage) != stages.end(),
          "mixer: {} takes no part {}: {} has no {}", result.base->name, part.row->name, result.base->name,
          name_of(part.row->stage));
  return result;
}

std::unique_ptr<Mixer> make_mixer(const MixerOptions& options) {
  const MixerName name = parse_mixer(options.name);
  if (name.base->make) return name.base->make(options);
  return std::make_unique<MultiHeadAttention>(options, [name](const MixerOptions& o) {
    return name.base->attention(name.parts, {o.heads, o.width / o.heads, o.context});
  });
}

void register_mixer(MixerRow row) {
  check(!row.name.empty() && row.name.find_first_of("+=:, ") == std::string::npos,
        "register_mixer: `{}` is no name: wanted letters without + = : , or spaces", row.name);
  const auto parts = attention_part_table();
  check(
      find_base(row.name) == nullptr &&
          std::none_of(parts.begin(), parts.end(), [&](const auto* part) { return part->name == row.name; }),
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
  for (const MixerRow& row : table()) text += help_line(row.name, row.help, row.source);
  return text + attention_parts();
}

std::string cross_attention_of(const MixerOptions& o) {
  const MixerName name = parse_mixer(o.name);
  MixerName cross{name.base->make ? &table().front() : name.base, {}};
  const AttentionSizes sizes{o.heads, o.width / o.heads, o.context};
  for (const PartChoice& part : name.parts.parts)
    if (!shares_positions(*part.row, *part.row->make(sizes, part.values))) cross.parts.parts.push_back(part);
  return cross.text();
}

bool brings_positions(const MixerOptions& o) {
  const MixerName name = parse_mixer(o.name);
  return name.base->positions || brings_positions(name.parts, {o.heads, o.width / o.heads, o.context});
}

}  // namespace vitrine::nn
