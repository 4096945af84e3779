#include "bench/measure/sizes.h"

#include <fmt/format.h>

#include "core/error.h"
#include "core/parallel.h"

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

}  // namespace vitrine::bench
