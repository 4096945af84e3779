#include "tests/nn/cs336/adapters.h"

#include <cctype>
#include <cmath>
#include <functional>

#include "ops/activation.h"
#include "ops/index.h"
#include "ops/loss.h"
#include "ops/matmul.h"
#include "ops/softmax.h"

namespace vitrine::test {
namespace cs336 {
namespace {

Results expected(const Tensor& y) { return {{"expected", y}}; }

Results cross_entropy_mean(Case c) {
  const Tensor logits = c.given({"logits", "input", "inputs"});
  return expected(cross_entropy(logits, c.given({"targets", "target", "labels"})));
}

struct Adapter {
  const char* word;
  std::function<Results(Case)> run;
};

/// A case is run by the first adapter whose word is in the case's `computes`. Words that contain
/// other words come first.
const std::vector<Adapter>& adapters() {
  static const std::vector<Adapter> all = {
      {"adamw", adamw},
      {"clipping", clipping},
      {"schedule", schedule},
      {"cross_entropy", cross_entropy_mean},
      {"language_model", language_model},
      {"_lm", language_model},
      {"block", [](Case c) { return expected(block(c, c.input(), "")); }},
      {"multihead", [](Case c) { return expected(self_attention(c, c.input(), "")); }},
      {"multi_head", [](Case c) { return expected(self_attention(c, c.input(), "")); }},
      {"mha", [](Case c) { return expected(self_attention(c, c.input(), "")); }},
      {"sdpa", [](Case c) { return expected(sdpa(c)); }},
      {"dot_product_attention", [](Case c) { return expected(sdpa(c)); }},
      {"rope",
       [](Case c) {
         return expected(rope(c, c.given({"input", "in_query_or_key", "x"})));
       }},
      {"rmsnorm", [](Case c) { return expected(norm(c, c.input(), "weight")); }},
      {"swiglu", [](Case c) { return expected(feed_forward(c, c.input(), "")); }},
      {"feedforward", [](Case c) { return expected(feed_forward(c, c.input(), "")); }},
      {"silu", [](Case c) { return expected(silu(c.input())); }},
      {"gelu", [](Case c) { return expected(gelu(c.input())); }},
      {"softmax",
       [](Case c) {
         return expected(softmax(c.input(), static_cast<int64_t>(c.number({"dim", "axis"}, -1))));
       }},
      {"embedding",
       [](Case c) {
         return expected(embedding(c.weight("weight"), c.given({"token_ids", "input", "ids", "indices"})));
       }},
      {"linear", [](Case c) { return expected(linear(c.input(), c.weight("weight"))); }},
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

}  // namespace
}  // namespace cs336

void check_cs336(const Cs336Case& c) {
  for (const auto& [name, got] : cs336::adapter_of(c).run(c)) {
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
