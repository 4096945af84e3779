#include "tests/nn/modules.h"

#include <algorithm>
#include <utility>

#include "core/creation.h"
#include "nn/attention/alignment.h"
#include "nn/attention/graphs.h"
#include "nn/attention/luong.h"
#include "nn/attention/memory_tokens.h"
#include "nn/attention/multi_head.h"
#include "nn/attention/parts/laser.h"
#include "nn/attention/pooling.h"
#include "nn/layers/batch_norm.h"
#include "nn/layers/conformer_convolution.h"
#include "nn/layers/feed_forward.h"
#include "nn/layers/group_norm.h"
#include "nn/layers/low_rank.h"
#include "nn/layers/mixture_of_experts.h"
#include "nn/layers/norm.h"
#include "nn/layers/output.h"
#include "nn/recurrent/channel_mix.h"
#include "nn/transformer/halting.h"
#include "nn/transformer/residual.h"
#include "ops/elementwise.h"
#include "ops/join.h"
#include "ops/view.h"
#include "tests/ops/reference.h"

namespace vitrine::test {
namespace {

using namespace nn;

constexpr int64_t kModuleWidth = 8;

template <class M>
using Call = Tensor (*)(const M&, const Tensor& x);

template <class M>
class AsMixer : public Mixer {
 public:
  AsMixer(M module, Call<M> call) : module_(std::move(module)), call_(call) {}
  Tensor forward(const Tensor& x, const MixerCall&) const override { return call_(module_, x); }
  std::unique_ptr<DecodingState> make_state(int64_t, int64_t) const override {
    fail("a module has no state");
  }
  std::string kind() const override { return "module"; }
  std::string explain(const MixerCall&) const override { return "a module"; }
  void fields(Fields& f) override { f("module", module_); }

 private:
  M module_;
  Call<M> call_;
};

/// Makes the mixer of a module that `make` makes, in evaluation mode.
template <class Make>
std::function<std::unique_ptr<Mixer>()> as_mixer(Make make, Call<decltype(make())> call) {
  return [make, call] {
    auto mixer = std::make_unique<AsMixer<decltype(make())>>(make(), call);
    mixer->eval();
    return mixer;
  };
}

/// Two more positions than x, in another order.
Tensor second_sequence(const Tensor& x) {
  const Tensor more = to(cast(normal({1, 2, kModuleWidth}, 31), x.dtype()), x.device());
  return concat({flip(x, {1}) * 0.7, expand(more, {x.size(0), 2, kModuleWidth})}, 1);
}

ModuleRow luong(const std::string& name, const std::string& help, const std::string& formula,
                const LuongOptions& options, std::shared_ptr<const ReadOut> read = nullptr) {
  return {name, help, formula, options.coverage ? "See et al. 2017" : "Luong et al. 2015",
          as_mixer([options, read] { return LuongAttention(options, read); },
                   [](const LuongAttention& m, const Tensor& x) {
                     const Tensor source = second_sequence(x);
                     Tensor received;
                     if (m.coverage_weight.defined())
                       received = full({x.size(0), x.size(1), source.size(1)}, 0.3, x.dtype(), x.device());
                     return m.combine(m.attend(x, source, {}, 0, received).context, x);
                   })};
}

/// Attention over 8 channels with the mask `mask(positions, device)`.
template <Tensor (*mask)(int64_t positions, Device)>
std::function<std::unique_ptr<Mixer>()> masked_attention() {
  return as_mixer([] { return MultiHeadAttention({.width = kModuleWidth, .heads = 2}); },
                  [](const MultiHeadAttention& m, const Tensor& x) {
                    return m.forward(x, {.mask = {.allowed = mask(x.size(1), x.device())}});
                  });
}

/// Each node sees itself and the next two.
Tensor next_nodes(int64_t nodes, Device device) {
  std::vector<int64_t> edges;
  for (int64_t i = 0; i < nodes; ++i)
    for (int64_t j = i + 1; j < std::min(nodes, i + 3); ++j) edges.insert(edges.end(), {i, j});
  return edge_mask(index_tensor(edges, {static_cast<int64_t>(edges.size()) / 2, 2}, device), nodes,
                   {.both_ways = false});
}

/// The first token is the root, and node i hangs from node (i − 1)/2.
Tensor binary_tree(int64_t nodes, Device device) {
  std::vector<int64_t> heads;
  for (int64_t i = 0; i < nodes; ++i) heads.push_back(i == 0 ? -1 : (i - 1) / 2);
  return tree_mask(heads, {}, device);
}

struct WithMemory : Module {
  MemoryTokens memory{3, kModuleWidth};
  MultiHeadAttention attention{{.width = kModuleWidth, .heads = 2}};
  void fields(Fields& f) override { f("memory", memory), f("attention", attention); }
};

ModuleRow pooling(const std::string& name, const std::string& help, const std::string& formula, bool laser) {
  return {name, help, formula, "Yang et al. 2016",
          as_mixer(
              [laser] {
                return AttentionPooling(kModuleWidth, 5, laser ? std::make_shared<LaserReadOut>() : nullptr);
              },
              [](const AttentionPooling& m, const Tensor& x) { return x + unsqueeze(m.forward(x), 1); })};
}

ModuleRow gated(const std::string& name, Activation activation, const std::string& formula) {
  return {name, "a feed-forward part with a gate", formula, "Shazeer 2020",
          as_mixer([activation] { return FeedForward(kModuleWidth, 6, activation, Bias::yes, 0.02); },
                   [](const FeedForward& m, const Tensor& x) { return m.forward(x); })};
}

ModuleRow norm(const std::string& name, NormKind kind, const std::string& formula,
               const std::string& source) {
  return {name, "a norm over the channels of a position", formula, source,
          as_mixer([kind] { return Norm(kModuleWidth, kind); },
                   [](const Norm& m, const Tensor& x) { return m.forward(x); })};
}

ModuleRow experts(const std::string& name, int64_t per_token, const std::string& formula,
                  const std::string& source) {
  return {name, "a feed-forward part of which each token takes the best experts", formula, source,
          as_mixer(
              [per_token] {
                return MixtureOfExperts(kModuleWidth, 6, Activation::gelu, Bias::yes, 0.02,
                                        {.count = 3, .per_token = per_token});
              },
              [](const MixtureOfExperts& m, const Tensor& x) { return m.forward(x); })};
}

ModuleRow channel_mix(const std::string& name, FeedForwardKind kind, const std::string& formula,
                      const std::string& source) {
  return {name, "a feed-forward part that also reads the position before", formula, source,
          as_mixer(
              [kind] { return ChannelMix(kind, {.width = kModuleWidth}, 6); },
              [](const ChannelMix& m, const Tensor& x) { return m.forward(x, {.mask = {.causal = true}}); })};
}

/// A sublayer with its shortcut and its norm.
struct Sublayer : Module {
  explicit Sublayer(Residual residual)
      : shortcut(residual, kModuleWidth, residual == Residual::deepnet ? deep_norm(3).alpha : 1) {}
  Shortcut shortcut;
  FeedForward inner{kModuleWidth, 6, Activation::gelu, Bias::yes, 0.02};
  Norm norm{kModuleWidth};
  void fields(Fields& f) override { f("shortcut", shortcut), f("inner", inner), f("norm", norm); }
};

ModuleRow residual(const std::string& name, Residual kind, const std::string& help,
                   const std::string& formula, const std::string& source) {
  return {name, help, formula, source,
          as_mixer([kind] { return Sublayer(kind); },
                   [](const Sublayer& m, const Tensor& x) {
                     return m.norm.forward(m.shortcut.forward(x) + m.inner.forward(x));
                   })};
}

struct Ponders : Module {
  Halting halting{kModuleWidth, {.max_steps = 3}};
  Linear step{kModuleWidth, kModuleWidth};
  void fields(Fields& f) override { f("halting", halting), f("step", step); }
};

}  // namespace

const std::vector<ModuleRow>& module_rows() {
  static const std::vector<ModuleRow> rows = {
      luong("luong_global", "attention of a decoder to all states of its encoder",
            "c = Σ_j softmax_j(hᵀ·W·s_j)·s_j, y = tanh(W_c·[c; h])",
            {.width = kModuleWidth, .source_width = kModuleWidth}),
      luong("luong_laser", "attention of a decoder to the states of its encoder, read by LASER",
            "c = log Σ_j softmax_j(hᵀ·W·s_j)·e^(s_j), y = tanh(W_c·[c; h])",
            {.width = kModuleWidth, .source_width = kModuleWidth}, std::make_shared<LaserReadOut>()),
      luong("luong_local_m", "attention of a decoder to the states around its own position",
            "as luong_global, over |j − t| ≤ D",
            {.width = kModuleWidth,
             .source_width = kModuleWidth,
             .view = LuongView::monotonic,
             .half_window = 2}),
      luong("luong_local_p", "attention of a decoder to the states around a position that it predicts",
            "p = S·σ(v·tanh(W·h)), w_j ← w_j·e^(−2(j − p)²/D²)",
            {.width = kModuleWidth, .source_width = kModuleWidth, .view = LuongView::predictive}),
      luong("coverage", "additive attention that knows how much each state has received",
            "score = v·tanh(W·[h; s_j] + w·coverage_j)",
            {.width = kModuleWidth,
             .source_width = kModuleWidth,
             .score = LuongScore::concat,
             .coverage = true}),
      {"soft_alignment", "two sequences, each with what the other one has at the aligned positions",
       "c_i = Σ_j softmax_j(a_i·b_j)·b_j, y_i = [a_i; c_i; a_i − c_i; a_i∘c_i]", "Chen et al. 2017",
       as_mixer([] { return Linear(kModuleWidth, kModuleWidth); },
                [](const Linear& m, const Tensor& x) {
                  const Alignment both = soft_alignment(m.forward(x), second_sequence(x));
                  return concat({both.a, both.b}, 1);
                })},
      {"laser_alignment", "two sequences, each with what it reads of the other one by LASER",
       "c_i = log Σ_j softmax_j(a_i·b_j)·e^(b_j), y_i = [a_i; c_i; a_i − c_i; a_i∘c_i]", "Chen et al. 2017",
       as_mixer([] { return Linear(kModuleWidth, kModuleWidth); },
                [](const Linear& m, const Tensor& x) {
                  const Alignment both =
                      soft_alignment(m.forward(x), second_sequence(x), {}, {}, LaserReadOut());
                  return concat({both.a, both.b}, 1);
                })},
      {"attention_flow", "attention between a text and a question, in both directions",
       "s_ij = w·[h_i; u_j; h_i∘u_j], y = [h; ũ; h∘ũ; h∘h̃]", "Seo et al. 2017",
       as_mixer([] { return AttentionFlow(kModuleWidth); },
                [](const AttentionFlow& m, const Tensor& x) { return m.forward(x, second_sequence(x)); })},
      {"laser_flow", "attention between a text and a question, read by LASER",
       "ũ_i = log Σ_j softmax_j(s_ij)·e^(u_j), h̃ = log Σ_i softmax_i(max_j s_ij)·e^(h_i)", "Seo et al. 2017",
       as_mixer([] { return AttentionFlow(kModuleWidth); },
                [](const AttentionFlow& m, const Tensor& x) {
                  return m.attend(x, second_sequence(x), {}, {}, LaserReadOut()).y;
                })},
      {"laser_output", "the exp transform at the output: LASER whose keys are the classes",
       "y_d = log Σ_c softmax_c(W·x)·e^(v_cd)", "Duvvuri and Dhillon 2024",
       as_mixer([] { return Linear(kModuleWidth, kModuleWidth); },
                [](const Linear& m, const Tensor& x) { return laser_output(m.forward(x), m.weight); })},
      pooling("attention_pooling", "a learned query makes one vector of a sequence",
              "y = Σ_t softmax_t(u·tanh(W·h_t + b))·h_t", false),
      pooling("laser_pooling", "a learned query makes one vector of a sequence, read by LASER",
              "y = log Σ_t softmax_t(u·tanh(W·h_t + b))·e^(h_t)", true),
      {"memory_tokens", "learned vectors before the sequence, which pass through all layers", "x ← [m; x]",
       "Burtsev et al. 2020",
       as_mixer([] { return WithMemory(); },
                [](const WithMemory& m, const Tensor& x) {
                  return m.memory.rest(m.attention.forward(m.memory.before(x)));
                })},
      {"edge_mask", "attention over the edges of a graph",
       "key j is visible to query i if (i, j) is an edge, or j = i", "Veličković et al. 2018",
       masked_attention<next_nodes>()},
      {"tree_mask", "attention over a parse tree", "query i sees itself, its ancestors and its siblings",
       "Strubell et al. 2018", masked_attention<binary_tree>()},
      gated("swiglu", Activation::swiglu, "y = W₂·(silu(W₁·x)∘(W₃·x))"),
      gated("geglu", Activation::geglu, "y = W₂·(gelu(W₁·x)∘(W₃·x))"),
      experts("top_1_experts", 1, "y = p_e·E_e(x) for the largest p_e, p = softmax(W·x)",
              "Fedus et al. 2021"),
      experts("top_2_experts", 2, "y = Σ_e p_e·E_e(x)/Σ_e p_e over the two largest p_e, p = softmax(W·x)",
              "Lepikhin et al. 2020"),
      {"halting", "a position takes as many steps as it needs", "y ← p·s + (1 − p)·y until Σ p > 0.99",
       "Graves 2016; Dehghani et al. 2019",
       as_mixer([] { return Ponders(); },
                [](const Ponders& m, const Tensor& x) {
                  const Halted y =
                      m.halting.forward(x, [&](const Tensor& s, int64_t) { return tanh(m.step.forward(s)); });
                  return y.state + unsqueeze(y.ponder, -1);
                })},
      norm("layer_norm", NormKind::layer, "y = g·(x − mean x)/√(var x + ε) + b", "Ba et al. 2016"),
      norm("rms_norm", NormKind::rms, "y = g·x/√(mean x² + ε)", "Zhang and Sennrich 2019"),
      norm("scale_norm", NormKind::scale, "y = g·x/|x|", "Nguyen and Salazar 2019"),
      {"group_norm", "a norm over groups of channels of one example",
       "y = g·(x − mean x)/√(var x + ε) + b over a group", "Wu and He 2018",
       as_mixer([] { return GroupNorm(2, kModuleWidth); },
                [](const GroupNorm& m, const Tensor& x) { return transpose(m.forward(transpose(x))); })},
      {"batch_norm", "a norm of each channel over the batch; in evaluation, with the running statistics",
       "y = g·(x − mean)/√(var + ε) + b", "Ioffe and Szegedy 2015",
       as_mixer([] { return BatchNorm(kModuleWidth, {.axis = -1}); },
                [](const BatchNorm& m, const Tensor& x) { return m.forward(x); })},
      {"power_norm", "a norm of each channel by its mean square; in evaluation, by the running one",
       "y = g·x/√(ψ² + ε) + b", "Shen et al. 2020",
       as_mixer(
           [] {
             Norm norm(kModuleWidth, NormKind::power);
             auto state = norm.state_dict();
             state.at("psi2") =
                 arange(1, 1 + kModuleWidth, 1, DType::float32) * 0.5;  // as after some training
             norm.load_state_dict(state);
             return norm;
           },
           [](const Norm& m, const Tensor& x) { return m.forward(x); })},
      residual("deepnet_residual", Residual::deepnet, "a residual connection for stacks of many layers",
               "y = norm(α·x + f(x)), α = (2L)^¼ for L layers", "Wang et al. 2022"),
      residual("admin_residual", Residual::admin, "a residual connection with a learned weight per channel",
               "y = norm(ω·x + f(x))", "Liu et al. 2020"),
      channel_mix("rwkv4_channel_mix", FeedForwardKind::rwkv4, "y = σ(W_r·x_r)·W_v·relu(W_k·x_k)²",
                  "Peng et al. 2023"),
      channel_mix("rwkv7_channel_mix", FeedForwardKind::rwkv7, "y = W_v·relu(W_k·x_k)²", "Peng et al. 2025"),
      {"conformer_convolution", "the convolution module of the Conformer, in evaluation",
       "y = W₂·silu(norm(conv(glu(W₁·norm(x)))))", "Gulati et al. 2020",
       as_mixer([] { return ConformerConvolution(kModuleWidth, 3); },
                [](const ConformerConvolution& m, const Tensor& x) { return m.forward(x); })},
      {"low_rank", "the change that LoRA adds to a linear layer", "y = (α/r)·B·A·x", "Hu et al. 2021",
       as_mixer([] { return LowRank(kModuleWidth, 5, {.rank = 2}); },
                [](const LowRank& m, const Tensor& x) { return m.forward(x); })},
      {"mixture_of_softmaxes", "log-probabilities of several softmaxes, which LASER joins",
       "y = log Σ_k π_k·softmax(W_out·tanh(W_k·x))", "Yang et al. 2018",
       as_mixer([] { return MixtureOfSoftmaxes(kModuleWidth, 6, 3, 4); },
                [](const MixtureOfSoftmaxes& m, const Tensor& x) { return m.forward(x); })},
  };
  return rows;
}

const ModuleRow* find_module(const std::string& name) {
  const auto& rows = module_rows();
  const auto found =
      std::find_if(rows.begin(), rows.end(), [&](const auto& row) { return row.name == name; });
  return found == rows.end() ? nullptr : &*found;
}

}  // namespace vitrine::test
