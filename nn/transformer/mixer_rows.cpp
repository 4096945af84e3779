#include "nn/transformer/mixer_rows.h"

#include <optional>

#include "nn/attention/composed.h"
#include "nn/attention/delta.h"
#include "nn/attention/differential.h"
#include "nn/attention/gated_linear.h"
#include "nn/attention/latent.h"
#include "nn/attention/linear.h"
#include "nn/attention/linformer.h"
#include "nn/attention/lsh.h"
#include "nn/attention/performer.h"
#include "nn/attention/retention.h"
#include "nn/attention/transformer_xl.h"
#include "nn/recurrent/mamba.h"
#include "nn/recurrent/mamba2.h"
#include "nn/recurrent/recurrent.h"
#include "nn/recurrent/rwkv4.h"
#include "nn/recurrent/rwkv7.h"

namespace vitrine::nn {
namespace {

const std::vector<Stage> kAllStages = {Stage::prepare, Stage::extend, Stage::score,     Stage::scale,
                                       Stage::modify,  Stage::mask,   Stage::normalize, Stage::reweight,
                                       Stage::read,    Stage::combine};
/// Those of one map of differential attention, whose values are wider than its keys.
const std::vector<Stage> kMapStages = {Stage::prepare,  Stage::score, Stage::scale,
                                       Stage::modify,   Stage::mask,  Stage::normalize,
                                       Stage::reweight, Stage::read,  Stage::combine};

/// Of attentions that compute no scores.
const std::vector<Stage> kFeatureStages = {Stage::prepare, Stage::read, Stage::combine};

/// Of attentions whose keys are mixtures of positions.
std::vector<Stage> mixture_stages() {
  std::vector<Stage> stages = kMapStages;
  std::erase(stages, Stage::mask);
  return stages;
}

/// An option that is a whole number from 1 on. Without an initial value it is optional.
PartOption count(const char* name, const char* help, const char* initial = "") {
  return {.name = name, .help = help, .initial = initial, .least = 1, .whole = true, .optional = !*initial};
}

/// The options of Mamba and Mamba-2, whose states differ.
std::vector<PartOption> state_space_options(const char* states) {
  return {count("states", states, "16"),
          count("expand", "the channels of the state space, as a multiple of the width", "2"),
          count("kernel", "the positions that the convolution sees", "4")};
}

/// The value of an optional count; 0 if it has none.
int64_t count_or_0(const PartValues& values, const char* name) {
  return values.has(name) ? values.whole(name) : 0;
}

template <class M>
std::unique_ptr<Mixer> make(const MixerOptions& options, const AttentionName&, const PartValues&) {
  return std::make_unique<M>(options);
}

}  // namespace

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
       .help = "the difference of two attention maps, normalized",
       .formula = "y = (1 − λ₀)·RMSNorm(softmax(q₁·k₁ᵀ/√D)·v − λ·softmax(q₂·k₂ᵀ/√D)·v)",
       .source = "Ye et al. 2024",
       .stages = kMapStages,
       .options = {{.name = "initial",
                    .help = "λ₀, above 0 and below 1; without it 0.8 − 0.6·e^(−0.3·(layer − 1))",
                    .optional = true}},
       .attention =
           [](const AttentionName& parts, const AttentionSizes& sizes, const PartValues& values) {
             std::optional<double> initial;
             if (values.has("initial")) initial = values.number("initial");
             return std::make_unique<DifferentialAttention>(parts, sizes, initial);
           }},
      {.name = "linear",
       .help = "weights φ(q)·φ(k) with φ = elu + 1, in linear time",
       .formula = "y_i = Σ_j φ(q_i)·φ(k_j)·v_j / Σ_j φ(q_i)·φ(k_j), φ(x) = elu(x) + 1",
       .source = "Katharopoulos et al. 2020",
       .stages = kFeatureStages,
       .linear_as = "linear",
       .attention = [](const AttentionName& parts, const AttentionSizes& sizes,
                       const PartValues&) { return std::make_unique<LinearAttention>(parts, sizes); }},
      {.name = "performer",
       .help = "softmax weights estimated by random features, in linear time",
       .formula = "y_i = Σ_j φ(q_i)·φ(k_j)·v_j / Σ_j φ(q_i)·φ(k_j), φ(x) = e^(W·x − |x|²/2)",
       .source = "Choromanski et al. 2021",
       .stages = kFeatureStages,
       .linear_as = "performer",
       .options = {count("features", "the number of features; without it D·ln D")},
       .attention =
           [](const AttentionName& parts, const AttentionSizes& sizes, const PartValues& values) {
             return std::make_unique<Performer>(parts, sizes, count_or_0(values, "features"));
           }},
      {.name = "linformer",
       .help = "keys and values projected along time to a few rows; not causal",
       .formula = "y = softmax(q·(E·k)ᵀ/√D)·(F·v)",
       .source = "Wang et al. 2020",
       .stages = mixture_stages(),
       .order = true,
       .causal = false,
       .linear_as = "linformer=16",
       .options = {count("rank", "the number of rows; without it a quarter of the context")},
       .attention =
           [](const AttentionName& parts, const AttentionSizes& sizes, const PartValues& values) {
             return std::make_unique<Linformer>(parts, sizes, count_or_0(values, "rank"));
           }},
  };
}

std::vector<MixerRow> other_rows() {
  return {
      {.name = "lsh",
       .help = "attention within buckets of a hash",
       .formula = "y_i = Σ_j softmax_j(x_i·x_j/(|x_j|·√D))·v_j over the j with a hash of i",
       .source = "Kitaev et al. 2020",
       .stages = LshAttention::stages(),
       .order = true,
       .linear_as = "lsh=buckets=16",
       .options = {count("rounds", "the number of hashes of a position", "4"),
                   count("chunk", "a query sees its own chunk of so many positions, and the one before",
                         "64"),
                   count(
                       "buckets",
                       "the number of buckets, even; without it, so many that a bucket holds about a chunk")},
       .make =
           [](const MixerOptions& options, const AttentionName& parts, const PartValues& values) {
             return std::make_unique<LshAttention>(options,
                                                   LshSizes{.rounds = values.whole("rounds"),
                                                            .chunk = values.whole("chunk"),
                                                            .buckets = count_or_0(values, "buckets")},
                                                   parts);
           }},
      {.name = "transformer_xl",
       .help = "attention by distance to a segment and to the states of the one before",
       .formula = "s_ij = ((q_i + u)·k_j + (q_i + w)·r_{i−j})/√D over [states of the segment before; x]",
       .source = "Dai et al. 2019",
       .stages = TransformerXl::stages(),
       .positions = true,
       .make = [](const MixerOptions& options, const AttentionName& parts,
                  const PartValues&) { return std::make_unique<TransformerXl>(options, 0, parts); }},
      {.name = "latent",
       .help = "keys and values of all heads from one short vector, which is cached",
       .formula = "y = softmax([q; q_r]·[W_k·c; k_r]ᵀ/√(D + D_r))·(W_v·c), c = W_d·x",
       .source = "DeepSeek-AI 2024",
       .stages = LatentAttention::stages(),
       .positions = true,
       .key_heads = false,
       .options = {count("rank", "the channels of that vector; without it min(4·D, C/2)"),
                   count("rotary", "the channels of the rotary key, even; without it about D/2")},
       .make =
           [](const MixerOptions& options, const AttentionName& parts, const PartValues& values) {
             return std::make_unique<LatentAttention>(
                 options,
                 LatentSizes{.rank = count_or_0(values, "rank"), .rotary = count_or_0(values, "rotary")},
                 parts);
           }},
      {.name = "lstm",
       .help = "long short-term memory, in place of attention",
       .formula = "c ← σ(f)·c + σ(i)·tanh(g), h ← σ(o)·tanh(c)",
       .source = "Hochreiter and Schmidhuber 1997",
       .positions = true,
       .key_heads = false,
       .padding = false,
       .linear_as = "lstm",
       .make = make<Lstm>},
      {.name = "gru",
       .help = "gated recurrent unit, in place of attention",
       .formula = "h ← (1 − u)·tanh(n + r·n') + u·h",
       .source = "Cho et al. 2014",
       .positions = true,
       .key_heads = false,
       .padding = false,
       .linear_as = "gru",
       .make = make<Gru>},
      {.name = "rwkv4",
       .help = "a running weighted average of each channel",
       .formula = "y_t = Σ_i w_i·v_i/Σ_i w_i, w_i = e^(k_i − (t−1−i)·e^δ) for i < t, w_t = e^(b + k_t)",
       .source = "Peng et al. 2023",
       .positions = true,
       .key_heads = false,
       .padding = false,
       .linear_as = "rwkv4",
       .make = make<Rwkv4>},
      {.name = "rwkv7",
       .help = "a matrix as state, which forgets, erases and learns by what it reads",
       .formula = "S_t = diag(w_t)·S_{t−1} − (a_t⊙κ_t)ᵀ·(κ_t·S_{t−1}) + k_tᵀ·v_t, o_t = r_t·S_t",
       .source = "Peng et al. 2025",
       .positions = true,
       .key_heads = false,
       .padding = false,
       .linear_as = "rwkv7",
       .options = {count("rank", "of the projections from which decay, erasure and gate come", "16")},
       .make =
           [](const MixerOptions& options, const AttentionName&, const PartValues& values) {
             return std::make_unique<Rwkv7>(options, values.whole("rank"));
           }},
      {.name = "mamba",
       .help = "a selective state space with a causal convolution",
       .formula = "h_t = e^(Δ_t·a)·h_{t−1} + Δ_t·u_t·b_t, y_t = c_t·h_t + d·u_t",
       .source = "Gu and Dao 2023",
       .positions = true,
       .key_heads = false,
       .padding = false,
       .linear_as = "mamba",
       .options = state_space_options("the numbers that a channel stores"),
       .make =
           [](const MixerOptions& options, const AttentionName&, const PartValues& values) {
             return std::make_unique<Mamba>(options,
                                            Mamba::Sizes{.states = values.whole("states"),
                                                         .channels = values.whole("expand") * options.width,
                                                         .kernel = values.whole("kernel")});
           }},
      {.name = "mamba2",
       .help = "a selective state space with one decay for each head",
       .formula = "S_t = e^(−Δ_t·r)·S_{t−1} + b_tᵀ·(Δ_t·u_t), y_t = c_t·S_t + d·u_t",
       .source = "Dao and Gu 2024",
       .positions = true,
       .key_heads = false,
       .padding = false,
       .linear_as = "mamba2",
       .options = state_space_options("the rows of the state of a head"),
       .make =
           [](const MixerOptions& options, const AttentionName&, const PartValues& values) {
             return std::make_unique<Mamba2>(options,
                                             Mamba2::Sizes{.states = values.whole("states"),
                                                           .channels = values.whole("expand") * options.width,
                                                           .kernel = values.whole("kernel")});
           }},
      {.name = "retention",
       .help = "linear attention whose heads forget at fixed rates",
       .formula = "S_t = γ_h·S_{t−1} + k_tᵀ·v_t, o_t = q_t·S_t/√D, γ_h = 1 − 2^(−5−h)",
       .source = "Sun et al. 2023",
       .positions = true,
       .linear_as = "retention",
       .options = {{"theta", "the base: the slowest pair rotates by about 1/theta per position", "10000"}},
       .make =
           [](const MixerOptions& options, const AttentionName&, const PartValues& values) {
             return std::make_unique<Retention>(options, values.number("theta"));
           }},
      {.name = "gated_linear",
       .help = "linear attention whose positions decide what is forgotten",
       .formula = "S_t = diag(α_t)·S_{t−1} + k_tᵀ·v_t, o_t = q_t·S_t/√D",
       .source = "Yang et al. 2023",
       .positions = true,
       .linear_as = "gated_linear",
       .options = {count("rank", "of the projection from which the decays come", "16")},
       .make =
           [](const MixerOptions& options, const AttentionName&, const PartValues& values) {
             return std::make_unique<GatedLinear>(options, values.whole("rank"));
           }},
      {.name = "delta",
       .help = "DeltaNet: the state is corrected by the error of its own prediction",
       .formula = "S_t = S_{t−1} + β_t·k_tᵀ·(v_t − k_t·S_{t−1}), o_t = q_t·S_t/√D",
       .source = "Yang et al. 2024",
       .positions = true,
       .linear_as = "delta",
       .options = {{.name = "kind",
                    .help = "`gated`: the state also decays, and the output has a gate",
                    .initial = "plain",
                    .words = {"plain", "gated"},
                    .number = false}},
       .make =
           [](const MixerOptions& options, const AttentionName&, const PartValues& values) {
             return std::make_unique<DeltaNet>(options, values.text("kind") == "gated");
           }},
  };
}

}  // namespace vitrine::nn
