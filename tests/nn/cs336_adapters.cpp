#include "tests/nn/cs336_adapters.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <optional>
#include <regex>

#include "core/creation.h"
#include "core/safetensors.h"
#include "core/tape.h"
#include "nn/gpt.h"
#include "ops/activation.h"
#include "ops/attention.h"
#include "ops/elementwise.h"
#include "ops/index.h"
#include "ops/join.h"
#include "ops/loss.h"
#include "ops/matmul.h"
#include "ops/norm.h"
#include "ops/reduce.h"
#include "ops/softmax.h"
#include "ops/view.h"
#include "optim/clip.h"
#include "optim/optimizers.h"
#include "optim/schedule.h"

namespace vitrine::test {
namespace {

using Case = const Cs336Case&;
using Names = std::initializer_list<const char*>;
/// Results by the name of the tensor that each is compared with.
using Results = std::vector<std::pair<std::string, Tensor>>;

/// A number that is written beside the name in prose: "theta 10000", "eps = 1e-5", "2 heads".
std::optional<double> number_in(const std::string& text, const std::string& name) {
  const std::string number = "([0-9]+(?:\\.[0-9]+)?(?:e-?[0-9]+)?)";
  std::smatch found;
  for (const std::string& pattern : {name + "\\s*[=:]?\\s*" + number, number + "\\s+" + name})
    if (std::regex_search(text, found, std::regex("\\b" + pattern + "\\b"))) return std::stod(found[1]);
  return std::nullopt;
}

/// The number of the first of these names that the settings or the prose have.
std::optional<double> find_number(Case c, Names names) {
  for (const char* name : names)
    if (c.settings.has(name)) return c.settings.at(name).get<double>();
  for (const char* name : names)
    if (const auto found = number_in(c.about, name)) return found;
  return std::nullopt;
}
double number(Case c, Names names, double otherwise) { return find_number(c, names).value_or(otherwise); }
double number(Case c, Names names) {
  const auto found = find_number(c, names);
  check(found.has_value(), "the manifest does not say {}", *names.begin());
  return *found;
}

bool has(Case c, Names names) {
  return std::any_of(names.begin(), names.end(), [&](const char* name) { return c.tensors.has(name); });
}
/// The tensor by the first of these names that the case has.
Tensor given(Case c, Names names) {
  for (const char* name : names)
    if (c.tensors.has(name)) return c.tensors.at(name);
  fail("the case has no tensor {}", *names.begin());
}
Tensor input(Case c) { return given(c, {"input", "in_features", "inputs", "x"}); }
bool has_weight(Case c, const std::string& name) { return c.tensors.has("weight:" + name); }
Tensor weight(Case c, const std::string& name) { return c.tensors.at("weight:" + name); }

Results expected(const Tensor& y) { return {{"expected", y}}; }

// Layers ----------------------------------------------------------------------------------------------------------------

Tensor norm(Case c, const Tensor& x, const std::string& name) {
  return rms_norm(x, weight(c, name), number(c, {"eps", "epsilon"}, 1e-5));
}

/// With w3 SwiGLU, without it an activation of w1 alone.
Tensor feed_forward(Case c, const Tensor& x, const std::string& prefix) {
  const Tensor up = linear(x, weight(c, prefix + "w1.weight"));
  const bool gated = has_weight(c, prefix + "w3.weight");
  const Tensor inner = gated ? silu(up) * linear(x, weight(c, prefix + "w3.weight")) : gelu(up);
  return linear(inner, weight(c, prefix + "w2.weight"));
}

/// Whether true in a mask means that the position takes part.
bool true_takes_part(Case c) {
  const std::string mask = c.settings.value("mask", std::string());
  if (!mask.empty()) return mask != "hidden";
  return c.about.find("left out") == std::string::npos;
}

/// [.., T, D] as [B, 1, T, D], and with an axis of heads, [.., H, T, D], as [B, H, T, D].
Tensor four_axes(const Tensor& x) {
  const int64_t heads = x.rank() >= 4 ? x.size(-3) : 1;
  return reshape(x, {-1, heads, x.size(-2), x.size(-1)});
}

Tensor sdpa(Case c) {
  const Tensor q = given(c, {"query", "q", "Q"}), k = given(c, {"key", "k", "K"}),
               v = given(c, {"value", "v", "V"});
  AttentionOptions options;
  options.causal = c.settings.value("causal", false);
  if (has(c, {"mask"})) {
    const Tensor mask = given(c, {"mask"});
    options.allowed = true_takes_part(c) ? mask : logical_not(mask);
    if (mask.rank() > 2) options.allowed = four_axes(options.allowed);
  }
  Shape shape = q.shape();
  shape.back() = v.size(-1);
  return reshape(attention(four_axes(q), four_axes(k), four_axes(v), options), shape);
}

nn::RotaryOptions rotary(Case c) {
  nn::RotaryOptions o;
  o.base = number(c, {"theta", "rope_theta"}, o.base);
  o.interleaved = true;
  return o;
}

Tensor rope(Case c, const Tensor& x) {
  if (!has(c, {"token_positions", "positions"})) return nn::rotate(x, 0, rotary(c));
  Tensor positions = copy_as(given(c, {"token_positions", "positions"}), DType::int64);
  if (positions.rank() > 1) {  // one row for each sequence, all the same
    const Tensor first = select(reshape(positions, {-1, positions.size(-1)}), 0, 0);
    check(all(equal(positions, first)).item() != 0, "the sequences have different positions");
    positions = contiguous(first);
  }
  return nn::rotate(x, positions, rotary(c));
}

/// The weight of a projection, of all heads at once or joined from "q_heads.0.weight", …
Tensor projection(Case c, const std::string& prefix, const char* part) {
  const std::string whole = fmt::format("{}{}_proj.weight", prefix, part);
  if (has_weight(c, whole)) return weight(c, whole);
  std::vector<Tensor> rows;
  for (int head = 0;; ++head) {
    const std::string name = fmt::format("{}{}_heads.{}.weight", prefix, part, head);
    if (!has_weight(c, name)) break;
    rows.push_back(weight(c, name));
  }
  check(!rows.empty(), "the case has no weight {}", whole);
  return concat(rows, 0);
}

int64_t heads_of(Case c, const std::string& prefix) {
  int64_t heads = 0;
  while (has_weight(c, fmt::format("{}q_heads.{}.weight", prefix, heads))) ++heads;
  return heads > 0 ? heads : static_cast<int64_t>(number(c, {"num_heads", "n_heads", "heads", "head"}));
}

bool turns(Case c) {
  const auto said = [&](const char* word) {
    return c.name.find(word) != std::string::npos || c.computes.find(word) != std::string::npos;
  };
  return find_number(c, {"theta", "rope_theta"}) || has(c, {"token_positions", "positions"}) || said("rope");
}

/// Causal self-attention. x [.., T, C].
Tensor self_attention(Case c, const Tensor& x, const std::string& prefix) {
  const int64_t heads = heads_of(c, prefix), size = x.size(-2);
  const auto project = [&](const char* part) {
    const Tensor y = linear(x, projection(c, prefix, part));
    return transpose(reshape(y, {-1, size, heads, y.size(-1) / heads}), 1, 2);
  };
  const auto place = [&](const Tensor& y) { return turns(c) ? rope(c, y) : y; };
  AttentionOptions options;
  options.causal = true;
  const Tensor y = attention(place(project("q")), place(project("k")), project("v"), options);
  const std::string out =
      prefix + (has_weight(c, prefix + "o_proj.weight") ? "o_proj" : "output_proj") + ".weight";
  Shape merged = x.shape();
  merged.back() = y.size(1) * y.size(3);
  return linear(reshape(transpose(y, 1, 2), merged), weight(c, out));
}

Tensor block(Case c, const Tensor& x, const std::string& prefix) {
  const Tensor y = x + self_attention(c, norm(c, x, prefix + "ln1.weight"), prefix + "attn.");
  return y + feed_forward(c, norm(c, y, prefix + "ln2.weight"), prefix + "ffn.");
}

// The language model ----------------------------------------------------------------------------------------------------

std::string layer(int64_t i) { return fmt::format("layers.{}.", i); }

int64_t layers_of(Case c) {
  int64_t layers = 0;
  while (has_weight(c, layer(layers) + "ln1.weight")) ++layers;
  return layers;
}

/// Rows of each head's projection, so that channels 2i and 2i + 1, which turn together in CS336, become i and i + D/2, which
/// do so in the module. The scores stay what they were.
Tensor halves(const Tensor& w, int64_t heads) {
  const int64_t pairs = w.size(0) / heads / 2;
  return reshape(transpose(reshape(w, {heads, pairs, 2, -1}), 1, 2), w.shape());
}

/// The module Gpt with the weights of the case.
Tensor logits_of_module(Case c, const Tensor& ids) {
  const Tensor table = weight(c, "token_embeddings.weight");
  const bool learned = has_weight(c, "position_embeddings.weight"),
             gated = has_weight(c, layer(0) + "ffn.w3.weight");
  nn::GptOptions o;
  o.vocabulary = table.size(0), o.width = table.size(1), o.layers = layers_of(c);
  o.heads = heads_of(c, layer(0) + "attn."), o.hidden = weight(c, layer(0) + "ffn.w1.weight").size(0);
  o.context = learned ? weight(c, "position_embeddings.weight").size(0) : ids.size(-1);
  o.attention = learned ? "standard" : "rotary";
  o.activation = gated ? nn::Activation::swiglu : nn::Activation::gelu;
  o.norm = nn::NormKind::rms, o.bias = nn::Bias::no;
  nn::Gpt gpt(o);
  gpt.tokens.weight = Parameter(table);
  if (learned) gpt.positions = Parameter(weight(c, "position_embeddings.weight"));
  for (int64_t i = 0; i < o.layers; ++i) {
    const std::string attn = layer(i) + "attn.", ffn = layer(i) + "ffn.";
    const auto turned = [&](const char* part) {
      const Tensor w = projection(c, attn, part);
      return learned ? w : halves(w, o.heads);
    };
    nn::Block& b = *gpt.blocks[static_cast<size_t>(i)];
    b.attention.query_key_value.weight =
        Parameter(concat({turned("q"), turned("k"), projection(c, attn, "v")}, 0));
    b.attention.out.weight = Parameter(weight(c, attn + "output_proj.weight"));
    const Tensor up = weight(c, ffn + "w1.weight");
    b.feed_forward.up.weight = Parameter(gated ? concat({up, weight(c, ffn + "w3.weight")}, 0) : up);
    b.feed_forward.down.weight = Parameter(weight(c, ffn + "w2.weight"));
    b.attention_norm.weight = Parameter(weight(c, layer(i) + "ln1.weight"));
    b.feed_forward_norm.weight = Parameter(weight(c, layer(i) + "ln2.weight"));
  }
  gpt.final_norm.weight = Parameter(weight(c, "ln_final.weight"));
  return linear(gpt.features(reshape(ids, {-1, ids.size(-1)})), weight(c, "lm_head.weight"));
}

/// By functions, and by the module where that has the same: rotary positions of base 10000 from 0 on, and eps 1e-5.
Results language_model(Case c) {
  const Tensor ids = given(c, {"input", "in_indices", "token_ids", "ids"});
  check(layers_of(c) > 0, "the case has no weight layers.0.ln1.weight");
  Tensor x = embedding(weight(c, "token_embeddings.weight"), ids);
  const bool learned = has_weight(c, "position_embeddings.weight");
  if (learned) x = x + slice(weight(c, "position_embeddings.weight"), 0, 0, ids.size(-1));
  for (int64_t i = 0; i < layers_of(c); ++i) x = block(c, x, layer(i));
  Results results = expected(linear(norm(c, x, "ln_final.weight"), weight(c, "lm_head.weight")));
  const bool usual = number(c, {"eps", "epsilon"}, 1e-5) == 1e-5 && !has(c, {"token_positions", "positions"});
  if (usual && (learned || (turns(c) && rotary(c).base == 10000)) &&
      has_weight(c, "layers.0.attn.output_proj.weight"))
    results.push_back({"expected", reshape(logits_of_module(c, ids), results[0].second.shape())});
  return results;
}

// Training --------------------------------------------------------------------------------------------------------------

/// Gradients "grad:0", "grad:1", … are clipped together; each is compared with "expected:0", …, a single one with "expected".
Results clipping(Case c) {
  std::vector<Parameter> parameters;
  const auto add = [&](const Tensor& g) { parameters.emplace_back(zeros_like(g)).master().set_grad(g); };
  if (has(c, {"grad", "gradient", "input"})) add(given(c, {"grad", "gradient", "input"}));
  for (int i = 0; c.tensors.has(fmt::format("grad:{}", i)); ++i) add(c.tensors.at(fmt::format("grad:{}", i)));
  check(!parameters.empty(), "the case has no gradient, wanted grad:0");
  optim::clip_gradients(parameters, number(c, {"max_l2_norm", "max_norm"}));
  if (c.tensors.has("expected")) return expected(parameters[0].grad());
  Results results;
  for (size_t i = 0; i < parameters.size(); ++i)
    results.push_back({fmt::format("expected:{}", i), parameters[i].grad()});
  return results;
}

/// The gradient of a step: given, or that of CS336's regression, Σ(y − W·x)² with y = (x₀ + x₁, −x₂) unless targets are given.
Tensor gradient_of_step(Case c, const Parameter& w, int64_t step) {
  if (has(c, {"gradients", "grads"})) return select(given(c, {"gradients", "grads"}), 0, step);
  const Tensor x = select(input(c), 0, step);
  const auto at = [&](int64_t i) { return slice(x, -1, i, i + 1); };
  const Tensor y = has(c, {"targets", "target"}) ? select(given(c, {"targets", "target"}), 0, step)
                                                 : concat({at(0) + at(1), -at(2)}, -1);
  Tape tape;
  const Tensor watched = tape.watch(w.master());
  return tape.gradient({sum(square(y - linear(x, watched)))}, {watched})[0];
}

Results adamw(Case c) {
  optim::AdamOptions o;
  o.decay = optim::Decay::decoupled;
  o.lr = number(c, {"lr", "learning_rate"}, 1e-3), o.weight_decay = number(c, {"weight_decay"}, 0.01);
  o.eps = number(c, {"eps"}, 1e-8);
  if (c.settings.has("betas")) {
    o.beta1 = c.settings.at("betas")[0], o.beta2 = c.settings.at("betas")[1];
  } else {
    o.beta1 = number(c, {"beta1"}, o.beta1), o.beta2 = number(c, {"beta2"}, o.beta2);
  }
  Parameter w(clone(weight(c, "weight")));
  optim::Adam rule({w}, o);
  const Tensor rows = has(c, {"gradients", "grads"}) ? given(c, {"gradients", "grads"}) : input(c);
  const auto steps = static_cast<int64_t>(number(c, {"steps"}, static_cast<double>(rows.size(0))));
  for (int64_t step = 0; step < steps; ++step) {
    w.master().set_grad(gradient_of_step(c, w, step));
    rule.step();
  }
  return expected(w.master());
}

/// The rates of the iterations in `input`, or of 0, 1, 2, …
Results schedule(Case c) {
  const auto whole = [&](Names names) { return static_cast<int64_t>(number(c, names)); };
  const auto rate = optim::warmup_cosine(
      number(c, {"max_learning_rate", "max_lr"}), whole({"warmup_iters", "warmup"}),
      whole({"cosine_cycle_iters", "cosine_iters", "total"}), number(c, {"min_learning_rate", "min_lr"}));
  const Tensor want = c.tensors.at("expected");
  const std::vector<double> steps =
      has(c, {"input", "steps"}) ? given(c, {"input", "steps"}).values() : std::vector<double>();
  std::vector<double> rates;
  for (int64_t i = 0; i < want.numel(); ++i)
    rates.push_back(rate(steps.empty() ? i : static_cast<int64_t>(steps.at(static_cast<size_t>(i)))));
  return expected(tensor(rates, want.shape(), want.dtype()));
}

Results cross_entropy_mean(Case c) {
  const Tensor logits = given(c, {"logits", "input", "inputs"});
  return expected(cross_entropy(logits, given(c, {"targets", "target", "labels"})));
}

struct Adapter {
  const char* word;
  std::function<Results(Case)> run;
};

/// The first adapter whose word is in what a case computes runs it: those that contain others come first.
const std::vector<Adapter>& adapters() {
  static const std::vector<Adapter> all = {
      {"adamw", adamw},
      {"clipping", clipping},
      {"schedule", schedule},
      {"cross_entropy", cross_entropy_mean},
      {"language_model", language_model},
      {"_lm", language_model},
      {"block", [](Case c) { return expected(block(c, input(c), "")); }},
      {"multihead", [](Case c) { return expected(self_attention(c, input(c), "")); }},
      {"multi_head", [](Case c) { return expected(self_attention(c, input(c), "")); }},
      {"mha", [](Case c) { return expected(self_attention(c, input(c), "")); }},
      {"sdpa", [](Case c) { return expected(sdpa(c)); }},
      {"dot_product_attention", [](Case c) { return expected(sdpa(c)); }},
      {"rope",
       [](Case c) {
         return expected(rope(c, given(c, {"input", "in_query_or_key", "x"})));
       }},
      {"rmsnorm", [](Case c) { return expected(norm(c, input(c), "weight")); }},
      {"swiglu", [](Case c) { return expected(feed_forward(c, input(c), "")); }},
      {"feedforward", [](Case c) { return expected(feed_forward(c, input(c), "")); }},
      {"silu", [](Case c) { return expected(silu(input(c))); }},
      {"gelu", [](Case c) { return expected(gelu(input(c))); }},
      {"softmax",
       [](Case c) {
         return expected(softmax(input(c), static_cast<int64_t>(number(c, {"dim", "axis"}, -1))));
       }},
      {"embedding",
       [](Case c) {
         return expected(embedding(weight(c, "weight"), given(c, {"token_ids", "input", "ids", "indices"})));
       }},
      {"linear", [](Case c) { return expected(linear(input(c), weight(c, "weight"))); }},
  };
  return all;
}

const Adapter& adapter_of(Case c) {
  std::string said = c.computes;
  for (char& letter : said)
    letter = letter == ' ' || letter == '-'
                 ? '_'
                 : static_cast<char>(std::tolower(static_cast<unsigned char>(letter)));
  for (const Adapter& adapter : adapters())
    if (said.find(adapter.word) != std::string::npos) return adapter;
  fail("no adapter computes {}", c.computes);
}

/// Sizes, which the tensors have as well, are no settings.
Json without_sizes(Json settings) {
  for (const char* size : {"batch_size", "context_length", "d_ff", "d_in", "d_k", "d_model", "d_out", "d_v",
                           "max_seq_len", "num_layers", "vocab_size"})
    settings.erase(size);
  return settings;
}

}  // namespace

Cs336Case read_cs336_case(const Json& entry, const std::filesystem::path& folder) {
  Cs336Case c;
  c.name = entry.at("case"), c.computes = entry.value("computes", c.name), c.about = entry.value("about", "");
  c.settings = Settings(without_sizes(entry.value("settings", Json::object())));
  c.tensors = Inputs(read_safetensors((folder / entry.at("file").get<std::string>()).string()).tensors);
  c.atol = entry.at("atol"), c.rtol = entry.value("rtol", 0.0);
  return c;
}

void check_cs336(const Cs336Case& c) {
  for (const auto& [name, got] : adapter_of(c).run(c)) {
    const Tensor want = c.tensors.at(name);
    check(got.shape() == want.shape(), "{} is {}, wanted {}", name, got.shape(), want.shape());
    const auto a = got.values(), b = want.values();
    for (size_t i = 0; i < a.size(); ++i)
      check(a[i] == b[i] || std::abs(a[i] - b[i]) <= c.atol + c.rtol * std::abs(b[i]),
            "element {} of {} is {}, wanted {}", i, name, a[i], b[i]);
  }
  c.settings.check_all_read(c.computes);
  c.tensors.check_all_read(c.computes);
}

}  // namespace vitrine::test
