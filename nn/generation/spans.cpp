#include "nn/generation/spans.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "core/creation.h"

namespace vitrine::nn {

Tensor best_spans(const Tensor& first, const Tensor& last, int64_t longest) {
  check(first.rank() == 2 && first.size(1) >= 1 && last.shape() == first.shape(),
        "best_spans: the scores are {} and {}, wanted [B, T] twice", first.shape(), last.shape());
  check(longest >= 0, "best_spans: the longest span is {}, wanted at least 0", longest);
  const int64_t batch = first.size(0), time = first.size(1);
  const auto of_first = first.values(), of_last = last.values();
  std::vector<int64_t> spans;
  for (int64_t b = 0; b < batch; ++b) {
    double best = -INFINITY;
    int64_t begin = 0, end = 0;
    for (int64_t i = 0; i < time; ++i)
      for (int64_t j = i; j < time && (longest == 0 || j - i < longest); ++j) {
        const double score =
            of_first[static_cast<size_t>(b * time + i)] + of_last[static_cast<size_t>(b * time + j)];
        if (score > best) best = score, begin = i, end = j;
      }
    spans.insert(spans.end(), {begin, end});
  }
  return index_tensor(spans, {batch, 2});
}

}  // namespace vitrine::nn
