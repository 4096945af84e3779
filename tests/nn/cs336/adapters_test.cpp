// The adapters of the CS336 cases, on a directory that this test writes. The expected values are
// from the loops below, which compute the definitions of the course in float64.
#include <doctest/doctest.h>

#include <cmath>
#include <random>

#include "core/creation.h"
#include "core/files/safetensors.h"
#include "tests/cases.h"
#include "tests/folder.h"
#include "tests/nn/cs336/case.h"

using namespace vitrine;
using namespace vitrine::test;

namespace {

using Row = std::vector<double>;
using Rows = std::vector<Row>;

constexpr int64_t kTime = 5, kWidth = 8, kHidden = 6, kHeads = 2, kWords = 7;

/// Weights by name, created on first use, so that the loops and the directory have the same
/// weights.
struct Weights {
  std::map<std::string, Rows> all;
  std::mt19937 random{1};

  Row draw(int64_t n, double size = 0.6) {
    Row row;
    for (int64_t i = 0; i < n; ++i) row.push_back(std::uniform_real_distribution<>(-size, size)(random));
    return row;
  }
  Rows draw_rows(int64_t rows, int64_t columns) {
    Rows all_rows;
    for (int64_t i = 0; i < rows; ++i) all_rows.push_back(draw(columns));
    return all_rows;
  }
  const Rows& at(const std::string& name, int64_t rows, int64_t columns) {
    if (all.count(name) == 0) all[name] = draw_rows(rows, columns);
    return all.at(name);
  }
};

Row product(const Rows& w, const Row& x) {
  Row y;
  for (const Row& row : w) {
    double sum = 0;
    for (size_t i = 0; i < x.size(); ++i) sum += row[i] * x[i];
    y.push_back(sum);
  }
  return y;
}

Row added(Row x, const Row& y) {
  for (size_t i = 0; i < x.size(); ++i) x[i] += y[i];
  return x;
}

Row rms_norm(const Row& x, const Row& gain) {
  double squares = 0;
  for (double v : x) squares += v * v;
  Row y = x;
  for (size_t i = 0; i < x.size(); ++i)
    y[i] *= gain[i] / std::sqrt(squares / static_cast<double>(x.size()) + 1e-5);
  return y;
}

double silu(double x) { return x / (1 + std::exp(-x)); }

Row swiglu(Weights& w, const std::string& prefix, const Row& x) {
  const Row gate = product(w.at(prefix + "w1.weight", kHidden, kWidth), x);
  Row up = product(w.at(prefix + "w3.weight", kHidden, kWidth), x);
  for (size_t i = 0; i < up.size(); ++i) up[i] *= silu(gate[i]);
  return product(w.at(prefix + "w2.weight", kWidth, kHidden), up);
}

/// Channels 2i and 2i + 1 rotated by position·theta^(−2i/size).
Row turned(Row x, size_t position, double theta) {
  for (size_t i = 0; i + 1 < x.size(); i += 2) {
    const double angle = static_cast<double>(position) *
                         std::pow(theta, -static_cast<double>(i) / static_cast<double>(x.size()));
    const double a = x[i], b = x[i + 1];
    x[i] = a * std::cos(angle) - b * std::sin(angle), x[i + 1] = a * std::sin(angle) + b * std::cos(angle);
  }
  return x;
}

/// softmax(q·kᵀ/√D)·v over the keys that `visible` selects.
template <class Visible>
Rows attend(const Rows& q, const Rows& k, const Rows& v, Visible visible) {
  Rows y;
  for (size_t i = 0; i < q.size(); ++i) {
    Row sum(v[0].size(), 0);
    double total = 0;
    for (size_t j = 0; j < k.size(); ++j) {
      if (!visible(i, j)) continue;
      double score = 0;
      for (size_t d = 0; d < q[i].size(); ++d) score += q[i][d] * k[j][d];
      const double weight = std::exp(score / std::sqrt(static_cast<double>(q[i].size())));
      total += weight;
      for (size_t d = 0; d < sum.size(); ++d) sum[d] += weight * v[j][d];
    }
    for (double& value : sum) value /= total;
    y.push_back(sum);
  }
  return y;
}

bool causal(size_t i, size_t j) { return j <= i; }

/// theta 0: no rotation.
Rows self_attention(Weights& w, const std::string& prefix, const Rows& x, double theta) {
  constexpr size_t kSize = kWidth / kHeads;
  Rows joined(x.size(), Row());
  for (size_t head = 0; head < kHeads; ++head) {
    const auto project = [&](const char* part, bool turns) {
      Rows y;
      for (size_t t = 0; t < x.size(); ++t) {
        const Row all = product(w.at(fmt::format("{}{}_proj.weight", prefix, part), kWidth, kWidth), x[t]);
        const Row own(all.begin() + static_cast<int64_t>(head * kSize),
                      all.begin() + static_cast<int64_t>((head + 1) * kSize));
        y.push_back(turns && theta > 0 ? turned(own, t, theta) : own);
      }
      return y;
    };
    const Rows y = attend(project("q", true), project("k", true), project("v", false), causal);
    for (size_t t = 0; t < x.size(); ++t) joined[t].insert(joined[t].end(), y[t].begin(), y[t].end());
  }
  for (Row& row : joined) row = product(w.at(prefix + "output_proj.weight", kWidth, kWidth), row);
  return joined;
}

Rows normed(Weights& w, const std::string& name, Rows x) {
  const Row gain = w.at(name, 1, kWidth)[0];
  for (Row& row : x) row = rms_norm(row, gain);
  return x;
}

Rows block(Weights& w, const std::string& prefix, Rows x, double theta) {
  const Rows a = self_attention(w, prefix + "attn.", normed(w, prefix + "ln1.weight", x), theta);
  for (size_t t = 0; t < x.size(); ++t) x[t] = added(x[t], a[t]);
  const Rows n = normed(w, prefix + "ln2.weight", x);
  for (size_t t = 0; t < x.size(); ++t) x[t] = added(x[t], swiglu(w, prefix + "ffn.", n[t]));
  return x;
}

Rows language_model(Weights& w, const std::vector<size_t>& ids, double theta) {
  Rows x;
  for (size_t id : ids) x.push_back(w.at("token_embeddings.weight", kWords, kWidth)[id]);
  for (const char* layer : {"layers.0.", "layers.1."}) x = block(w, layer, x, theta);
  x = normed(w, "ln_final.weight", x);
  for (Row& row : x) row = product(w.at("lm_head.weight", kWords, kWidth), row);
  return x;
}

Tensor as_tensor(const Rows& rows, bool batch = false) {
  Row flat;
  for (const Row& row : rows) flat.insert(flat.end(), row.begin(), row.end());
  Shape shape = {static_cast<int64_t>(rows.size()), static_cast<int64_t>(rows[0].size())};
  if (batch) shape.insert(0, 1);
  return tensor(flat, shape, DType::float64);
}

Tensor row_tensor(const Row& row) { return tensor(row, {static_cast<int64_t>(row.size())}, DType::float64); }

/// A directory of cases.
struct Directory : Folder {
  Json cases = Json::array();

  void add(const std::string& name, const Json& settings, Tensors tensors, const Weights& weights = {},
           const std::string& about = "") {
    for (const auto& [weight, rows] : weights.all)
      tensors["weight:" + weight] = rows.size() == 1 ? row_tensor(rows[0]) : as_tensor(rows);
    write_safetensors(*this / (name + ".safetensors"), {{tensors.begin(), tensors.end()}, {}});
    cases.push_back({{"case", name},
                     {"file", name + ".safetensors"},
                     {"atol", 1e-12},
                     {"settings", settings},
                     {"about", about}});
  }
  /// The error: which case and what is wrong; "" for none.
  std::string failures() const {
    CaseRunner runner;
    runner.run(cases, "case", [&](const Json& entry) { check_cs336(read_cs336_case(entry, path)); });
    return runner.failures();
  }
};

}  // namespace

TEST_CASE("CS336: linear, embedding, swiglu, silu, rmsnorm, softmax and cross entropy of any directory") {
  Directory directory;
  Weights draw;
  const Rows x = draw.draw_rows(kTime, kWidth);
  const auto each = [&](const auto& f) {
    Rows y;
    for (const Row& row : x) y.push_back(f(row));
    return as_tensor(y, true);
  };
  Weights w;
  directory.add(
      "linear", {},
      {{"input", as_tensor(x, true)},
       {"expected", each([&](const Row& r) { return product(w.at("weight", kHidden, kWidth), r); })}},
      w);
  Weights norm;
  directory.add(
      "rmsnorm", {{"eps", 1e-5}, {"d_model", 8}},
      {{"input", as_tensor(x, true)},
       {"expected", each([&](const Row& r) { return rms_norm(r, norm.at("weight", 1, kWidth)[0]); })}},
      norm);
  Weights glu;
  const Tensor gated = each([&](const Row& r) { return swiglu(glu, "", r); });
  directory.add("swiglu", {}, {{"in_features", as_tensor(x, true)}, {"expected", gated}}, glu);
  directory.add("silu_matches", {}, {{"input", as_tensor(x, true)}, {"expected", each([](Row r) {
                                                                       for (double& v : r) v = silu(v);
                                                                       return r;
                                                                     })}});
  Weights table;
  const Rows& words = table.at("weight", kWords, kWidth);
  directory.add("embedding", {},
                {{"token_ids", tensor({3, 0, 6}, DType::int64)},
                 {"expected", as_tensor({words[3], words[0], words[6]})}},
                table);
  const auto softmax = [](Row r) {
    double total = 0;
    for (double& v : r) total += v = std::exp(v);
    for (double& v : r) v /= total;
    return r;
  };
  directory.add("softmax", {{"dim", -1}}, {{"input", as_tensor(x, true)}, {"expected", each(softmax)}});
  double loss = 0;
  const size_t targets[] = {1, 7, 0, 3, 3};
  for (size_t t = 0; t < x.size(); ++t)
    loss -= std::log(softmax(x[t])[targets[t]]) / static_cast<double>(x.size());
  directory.add("cross_entropy", {},
                {{"inputs", as_tensor(x)},
                 {"targets", tensor({1, 7, 0, 3, 3}, DType::int64)},
                 {"expected", tensor({loss}, Shape{}, DType::float64)}});
  CHECK(directory.failures() == "");
}

TEST_CASE("CS336: rotary positions, masked attention and multi-head attention with and without rotation") {
  Directory directory;
  Weights draw;
  const Rows q = draw.draw_rows(3, 4), k = draw.draw_rows(4, 4), v = draw.draw_rows(4, 2),
             x = draw.draw_rows(kTime, kWidth);
  const auto odd = [](size_t i, size_t j) { return (i + j) % 2 == 1 || j == 0; };
  Rows takes_part(3, Row(4)), left_out(3, Row(4));
  for (size_t i = 0; i < 3; ++i)
    for (size_t j = 0; j < 4; ++j) takes_part[i][j] = odd(i, j), left_out[i][j] = !odd(i, j);
  const Tensors qkv = {{"Q", as_tensor(q, true)},
                       {"K", as_tensor(k, true)},
                       {"V", as_tensor(v, true)},
                       {"expected", as_tensor(attend(q, k, v, odd), true)}};
  Tensors masked = qkv;
  masked["mask"] = copy_as(as_tensor(takes_part), DType::boolean);
  directory.add("scaled_dot_product_attention", {}, masked);
  masked["mask"] = copy_as(as_tensor(left_out), DType::boolean);
  directory.add("sdpa_by_prose", {}, masked, {}, "mask True means the position is left out");
  directory.add("sdpa_by_setting", {{"mask", "hidden"}}, masked);

  Rows at_3;
  for (size_t t = 0; t < x.size(); ++t) at_3.push_back(turned(x[t], t + 3, 100));
  directory.add("rope", {{"theta", 100}},
                {{"in_query_or_key", as_tensor(x, true)},
                 {"token_positions", tensor({3, 4, 5, 6, 7}, {1, 5}, DType::int64)},
                 {"expected", as_tensor(at_3, true)}});

  Weights plain;
  const Rows y = self_attention(plain, "", x, 0);
  directory.add("multihead_self_attention", {{"num_heads", 2}},
                {{"in_features", as_tensor(x, true)}, {"expected", as_tensor(y, true)}}, plain);
  Weights rotary;
  const Rows z = self_attention(rotary, "", x, 10000);
  directory.add("multihead_self_attention_with_rope", {},
                {{"in_features", as_tensor(x, true)}, {"expected", as_tensor(z, true)}}, rotary,
                "d_model 8, 2 heads, theta 10000");
  CHECK(directory.failures() == "");
}

TEST_CASE("CS336: a block and a whole language model, also by the module Gpt") {
  Directory directory;
  Weights w, lm, other;
  const Rows x = w.draw_rows(kTime, kWidth);
  const Rows y = block(w, "", x, 10000);
  directory.add("transformer_block", {{"num_heads", 2}, {"theta", 10000.0}},
                {{"in_features", as_tensor(x, true)}, {"expected", as_tensor(y, true)}}, w);
  const Tensor ids = tensor({2, 0, 6, 2, 5}, {1, 5}, DType::int64);
  const Json settings = {{"num_heads", 2}, {"rope_theta", 10000.0}, {"vocab_size", 7}, {"num_layers", 2}};
  const Rows logits = language_model(lm, {2, 0, 6, 2, 5}, 10000);
  directory.add("transformer_lm", settings, {{"in_indices", ids}, {"expected", as_tensor(logits, true)}}, lm);
  const Rows slow = language_model(other, {2, 0, 6, 2, 5}, 50);
  directory.add("lm_of_another_base", {}, {{"in_indices", ids}, {"expected", as_tensor(slow, true)}}, other,
                "2 heads, theta 50");
  directory.cases.back()["computes"] = "Transformer language model";
  CHECK(directory.failures() == "");
}

TEST_CASE("CS336: gradient clipping, AdamW over 1,000 steps, and the schedule") {
  Directory directory;
  const double norm = std::sqrt(9 + 16 + 144.0), factor = 2 / (norm + 1e-6);
  directory.add("gradient_clipping", {{"max_l2_norm", 2}},
                {{"grad:0", row_tensor({3, 4})},
                 {"grad:1", row_tensor({12})},
                 {"expected:0", row_tensor({3 * factor, 4 * factor})},
                 {"expected:1", row_tensor({12 * factor})}});

  Weights draw;
  const int steps = 1000;
  const Rows start = draw.draw_rows(2, 3), inputs = draw.draw_rows(steps, 3);
  Rows w = start, m(2, Row(3, 0)), v(2, Row(3, 0));
  for (int t = 1; t <= steps; ++t) {
    const Row& x = inputs[static_cast<size_t>(t - 1)];
    const Row y = {x[0] + x[1], -x[2]}, got = product(w, x);
    for (size_t i = 0; i < 2; ++i)
      for (size_t j = 0; j < 3; ++j) {
        const double g = -2 * (y[i] - got[i]) * x[j];
        m[i][j] = 0.9 * m[i][j] + 0.1 * g, v[i][j] = 0.999 * v[i][j] + 0.001 * g * g;
        w[i][j] *= 1 - 1e-3 * 0.01;
        w[i][j] -=
            1e-3 * m[i][j] / (1 - std::pow(0.9, t)) / (std::sqrt(v[i][j] / (1 - std::pow(0.999, t))) + 1e-8);
      }
  }
  Weights first;
  first.all["weight"] = start;
  directory.add(
      "adamw",
      {{"lr", 1e-3}, {"weight_decay", 0.01}, {"betas", {0.9, 0.999}}, {"eps", 1e-8}, {"steps", steps}},
      {{"inputs", as_tensor(inputs)}, {"expected", as_tensor(w)}}, first);

  Row rates;
  for (int t = 0; t < 25; ++t) {
    const double share = (t - 7) / 14.0;
    rates.push_back(t < 7 ? t / 7.0 : t > 21 ? 0.1 : 0.1 + 0.5 * (1 + std::cos(M_PI * share)) * 0.9);
  }
  directory.add(
      "lr_cosine_schedule",
      {{"max_learning_rate", 1}, {"min_learning_rate", 0.1}, {"warmup_iters", 7}, {"cosine_cycle_iters", 21}},
      {{"expected", row_tensor(rates)}});
  CHECK(directory.failures() == "");
}
