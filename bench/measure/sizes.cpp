#include "bench/measure/sizes.h"

#include <fmt/format.h>

#include "core/creation.h"
#include "core/error.h"
#include "core/parallel.h"
#include "core/random.h"

namespace vitrine::bench {

const std::vector<Size>& sizes() {
  static const std::vector<Size> all = {
      {"a", {.vocabulary = 65, .context = 64, .width = 128, .layers = 4, .heads = 4}, 12, 64, 200},
      {"b", {.vocabulary = 65, .context = 256, .width = 384, .layers = 6, .heads = 6}, 8, 256, 7},
      {"c", {.vocabulary = 50257, .context = 1024, .width = 768, .layers = 12, .heads = 12}, 4, 64, 5}};
  return all;
}

const Size& size(const std::string& name) {
  for (const Size& s : sizes())
    if (s.name == name) return s;
  fail("bench: there is no size {}: wanted a, b or c", name);
}

std::string arguments(const Size& s) {
  return fmt::format(
      "--layers {} --heads {} --width {} --context {} --vocabulary {} --batch {} --time {} --steps {} "
      "--threads {}",
      s.model.layers, s.model.heads, s.model.width, s.model.context, s.model.vocabulary, s.batch, s.time,
      s.steps, threads());
}

Tensor random_tokens(const Size& s, Device device) {
  std::vector<int64_t> ids(static_cast<size_t>(s.batch * s.time));
  for (int64_t& id : ids)
    id = static_cast<int64_t>(default_generator().next_uniform() * static_cast<double>(s.model.vocabulary));
  return index_tensor(ids, {s.batch, s.time}, device);
}

double product_operations(const Size& s) {
  const auto& m = s.model;
  const double tokens = static_cast<double>(s.batch * s.time), C = static_cast<double>(m.width);
  const double linear = static_cast<double>(m.layers) * 12 * C * C + C * static_cast<double>(m.vocabulary);
  const double attention = static_cast<double>(m.layers) * 2 * C * static_cast<double>(s.time) / 2;
  return 3 * 2 * tokens * (linear + attention);
}

}  // namespace vitrine::bench
