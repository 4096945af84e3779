#include "nn/transformer/mixers.h"

#include <algorithm>
#include <deque>
#include <sstream>
#include <utility>

#include "nn/attention/composed.h"
#include "nn/attention/delta.h"
#include "nn/attention/differential.h"
#include "nn/attention/gated_linear.h"
#include "nn/attention/linear.h"
#include "nn/attention/linformer.h"
#include "nn/attention/performer.h"
#include "nn/attention/retention.h"
#include "nn/recurrent/mamba.h"
#include "nn/recurrent/recurrent.h"
#include "nn/recurrent/rwkv4.h"
#include "nn/recurrent/rwkv7.h"

namespace vitrine::nn {
namespace {

const std::vector<Stage> kAllStages = {Stage::prepare,  Stage::score, Stage::scale,
                                       Stage::modify,   Stage::mask,  Stage::normalize,
                                       Stage::reweight, Stage::read,  Stage::combine};

/// Of attentions that compute no scores.
const std::vector<Stage> kFeatureStages = {Stage::prepare, Stage::read, Stage::combine};

/// Of attentions whose keys have no positions.
std::vector<Stage> all_but_mask() {
  std::vector<Stage> stages = kAllStages;
  std::erase(stages, Stage::mask);
  return stages;
}

/// An option that is a whole number from 1 on. Without an initial value it is optional.
PartOption count(const char* name, const char* help, const char* initial = "") {
  return {.name = name, .help = help, .initial = initial, .least = 1, .whole = true, .optional = !*initial};
}

/// The value of an optional count; 0 if it has none.
int64_t count_or_0(const PartValues& values, const char* name) {
  return values.has(name) ? values.whole(name) : 0;
}

template <class M>
std::unique_ptr<Mixer> make(const MixerOptions& options, const PartValues&) {
  return std::make_unique<M>(options);
}

std::vector<MixerRow> attention_rows() {
  return {
      {.name = "standard",
       .help = "scaled dot product, softmax, weighted mean",
       .formula = "y = softmax(q·kᵀ/√D)·v",
       .source = "Vaswani et al. 2017",
       .stages = kAllStages,
       .attention =
           [](const AttentionName& parts, const AttentionSizes& sizes, const PartValues&) {
             return std::make_unique<ComposedAttention>(parts, sizes.heads, sizes.head_size, sizes.context);
           }},
      {.name = "differential",
       .help = "the difference of two attention maps, normalized; takes all parts",
       .formula = "y = (1 − λ₀)·RMSNorm(softmax(q₁·k₁ᵀ/√D)·v − λ·softmax(q₂·k₂ᵀ/√D)·v)",
       .source = "Ye et al. 2024",
       .stages = kAllStages,
       .attention = [](const AttentionName& parts, const AttentionSizes& sizes,
                       const PartValues&) { return std::make_unique<DifferentialAttention>(parts, sizes); }},
      {.name = "linear",
       .help = "weights φ(q)·φ(k) with φ = elu + 1, in linear time",
       .formula = "y_i = Σ_j φ(q_i)·φ(k_j)·v_j / Σ_j φ(q_i)·φ(k_j), φ(x) = elu(x) + 1",
       .source = "Katharopoulos et al. 2020",
       .stages = kFeatureStages,
       .attention = [](const AttentionName& parts, const AttentionSizes& sizes,
                       const PartValues&) { return std::make_unique<LinearAttention>(parts, sizes); }},
      {.name = "performer",
       .help = "softmax weights estimated by random features, in linear time",
       .formula = "y_i = Σ_j φ(q_i)·φ(k_j)·v_j / Σ_j φ(q_i)·φ(k_j), φ(x) = e^(W·x − |x|²/2)",
       .source = "Choromanski et al. 2021",
       .stages = kFeatureStages,
       .options = {count("features", "the number of features; without it D·ln D")},
       .attention =
           [](const AttentionName& parts, const AttentionSizes& sizes, const PartValues& values) {
             return std::make_unique<Performer>(parts, sizes, count_or_0(values, "features"));
           }},
      {.name = "linformer",
       .help = "keys and values projected along time to a few rows; not causal",
       .formula = "y = softmax(q·(E·k)ᵀ/√D)·(F·v)",
       .source = "Wang et al. 2020",
       .stages = all_but_mask(),
       .causal = false,
       .options = {count("rank", "the number of rows; without it a quarter of the context")},
       .attention =
           [](const AttentionName& parts, const AttentionSizes& sizes, const PartValues& values) {
             return std::make_unique<Linformer>(parts, sizes, count_or_0(values, "rank"));
           }},
  };
}

std::vector<MixerRow> other_rows() {
  return {
      {.name = "lstm",
       .help = "long short-term memory, in place of attention",
       .formula = "c ← σ(f)·c + σ(i)·tanh(g), h ← σ(o)·tanh(c)",
       .source = "Hochreiter and Schmidhuber 1997",
       .positions = true,
       .padding = false,
       .make = make<Lstm>},
      {.name = "gru",
       .help = "gated recurrent unit, in place of attention",
       .formula = "h ← (1 − u)·tanh(n + r·n') + u·h",
       .source = "Cho et al. 2014",
       .positions = true,
       .padding = false,
       .make = make<Gru>},
      {.name = "rwkv4",
       .help = "a running weighted average of each channel",
       .formula = "y_t = Σ_i w_i·v_i/Σ_i w_i, w_i = e^(k_i − (t−1−i)·e^δ) for i < t, w_t = e^(b + k_t)",
       .source = "Peng et al. 2023",
       .positions = true,
       .padding = false,
       .make = make<Rwkv4>},
      {.name = "rwkv7",
       .help = "a matrix as state, which forgets, erases and learns by what it reads",
       .formula = "S_t = diag(w_t)·S_{t−1} − (a_t⊙κ_t)ᵀ·(κ_t·S_{t−1}) + k_tᵀ·v_t, o_t = r_t·S_t",
       .source = "Peng et al. 2025",
       .positions = true,
       .padding = false,
       .options = {count("rank", "of the projections from which decay, erasure and gate come", "16")},
       .make =
           [](const MixerOptions& options, const PartValues& values) {
             return std::make_unique<Rwkv7>(options, values.whole("rank"));
           }},
      {.name = "mamba",
       .help = "a selective state space with a causal convolution",
       .formula = "h_t = e^(Δ_t·a)·h_{t−1} + Δ_t·u_t·b_t, y_t = c_t·h_t + d·u_t",
       .source = "Gu and Dao 2023",
       .positions = true,
       .padding = false,
       .options = {count("states", "the numbers that a channel stores", "16"),
                   count("expand", "the channels of the state space, as a multiple of the width", "2"),
                   count("kernel", "the positions that the convolution sees", "4")},
       .make =
           [](const MixerOptions& options, const PartValues& values) {
             return std::make_unique<Mamba>(options,
                                            Mamba::Sizes{.states = values.whole("states"),
                                                         .channels = values.whole("expand") * options.width,
                                                         .kernel = values.whole("kernel")});
           }},
      {.name = "retention",
       .help = "linear attention whose heads forget at fixed rates",
       .formula = "S_t = γ_h·S_{t−1} + k_tᵀ·v_t, o_t = q_t·S_t/√D, γ_h = 1 − 2^(−5−h)",
       .source = "Sun et al. 2023",
       .positions = true,
       .options = {{"theta", "the base: the slowest pair rotates by about 1/theta per position", "10000"}},
       .make =
           [](const MixerOptions& options, const PartValues& values) {
             return std::make_unique<Retention>(options, values.number("theta"));
           }},
      {.name = "gated_linear",
       .help = "linear attention whose positions decide what is forgotten",
       .formula = "S_t = diag(α_t)·S_{t−1} + k_tᵀ·v_t, o_t = q_t·S_t/√D",
       .source = "Yang et al. 2023",
       .positions = true,
       .options = {count("rank", "of the projection from which the decays come", "16")},
       .make =
           [](const MixerOptions& options, const PartValues& values) {
             return std::make_unique<GatedLinear>(options, values.whole("rank"));
           }},
      {.name = "delta",
       .help = "DeltaNet: the state is corrected by the error of its own prediction",
       .formula = "S_t = S_{t−1} + β_t·k_tᵀ·(v_t − k_t·S_{t−1}), o_t = q_t·S_t/√D",
       .source = "Yang et al. 2024",
       .positions = true,
       .options = {{.name = "kind",
                    .help = "`gated`: the state also decays, and the output has a gate",
                    .initial = "plain",
                    .words = {"plain", "gated"},
                    .number = false}},
       .make =
           [](const MixerOptions& options, const PartValues& values) {
             return std::make_unique<DeltaNet>(options, values.text("kind") == "gated");
           }},
  };
}

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

const char* name_of(Stage stage) {
  switch (stage) {
    case Stage::prepare: return "queries, keys or values";
    case Stage::score: return "scores";
    case Stage::scale: return "scale of scores";
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
  const auto& stages = result.base->stages;
  for (const PartChoice& part : result.parts.parts)
    check(std::find(stages.begin(), stages.end(), part.row->stage) != stages.end(),
          "mixer: {} takes no part {}: {} has no {}", result.base->name, part.row->name, result.base->name,
          name_of(part.row->stage));
  return result;
}

namespace {

/// The base must be an attention.
std::unique_ptr<MultiHeadAttention> make_heads(const MixerOptions& options, const MixerName& name) {
  return std::make_unique<MultiHeadAttention>(options, [name](const MixerOptions& o) {
    return name.base->attention(name.parts, {o.heads, o.width / o.heads, o.context}, name.values);
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
  if (name.base->make) return name.base->make(options, name.values);
  return make_heads(options, name);
}

std::unique_ptr<MultiHeadAttention> make_cross_attention(MixerOptions options) {
  options.name = cross_attention_of(options);
  return make_heads(options, parse_mixer(options.name));
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
  for (const MixerRow& row : table()) text += help_lines(row.name, row.help, row.source, row.options);
  return text + attention_parts();
}

std::string cross_attention_of(const MixerOptions& o) {
  const MixerName name = parse_mixer(o.name);
  MixerName cross = name;
  if (name.base->make) cross.base = &table().front(), cross.base_text = cross.base->name;
  cross.parts = {};
  for (const PartChoice& part : name.parts.parts) {
    const AttentionName alone{{part}};
    if (part.row->stage != Stage::mask && !brings_positions(alone, {o.heads, o.width / o.heads, o.context}))
      cross.parts.parts.push_back(part);
  }
  return cross.text();
}

bool brings_positions(const MixerOptions& o) {
  const MixerName name = parse_mixer(o.name);
  return name.base->positions || brings_positions(name.parts, {o.heads, o.width / o.heads, o.context});
}

}  // namespace vitrine::nn
