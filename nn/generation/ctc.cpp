#include "nn/generation/ctc.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <string>
#include <vector>

#include "core/creation.h"
#include "core/error.h"
#include "core/tape.h"
#include "ops/softmax.h"
#include "ops/view.h"

namespace vitrine::nn {
namespace {

using Labels = std::vector<int64_t>;
constexpr double kNever = -INFINITY;

/// Log-probabilities on the CPU, and the frames of each row.
struct Frames {
  int64_t batch, time, classes, blank;
  std::vector<double> values;
  std::vector<int64_t> lengths;

  Frames(const char* op, const Tensor& logits, const Tensor& given, int64_t blank) : blank(blank) {
    check(logits.rank() == 3 && is_floating(logits.dtype()), "{}: logits is {}, wanted floating [B, T, V]",
          op, describe(logits));
    batch = logits.size(0), time = logits.size(1), classes = logits.size(2);
    check(blank >= 0 && blank < classes, "{}: blank is {}, wanted a class in [0, {})", op, blank, classes);
    const Tape::Pause pause;
    values = log_softmax(cast(logits, DType::float64)).values();
    for (size_t i = 0; i < values.size(); ++i)
      check(!std::isnan(values[i]), "{}: logits have NaN in frame {} of row {}", op,
            static_cast<int64_t>(i) / classes % time, static_cast<int64_t>(i) / classes / time);
    lengths.assign(static_cast<size_t>(batch), time);
    if (!given.defined()) return;
    check(given.dtype() == DType::int64 && given.shape() == Shape{batch},
          "{}: lengths is {}, wanted int64[{}]", op, describe(given), batch);
    const std::vector<double> numbers = given.values();
    for (size_t b = 0; b < numbers.size(); ++b) {
      lengths[b] = static_cast<int64_t>(numbers[b]);
      check(lengths[b] >= 0 && lengths[b] <= time, "{}: lengths has {} in row {}, wanted 0 to {}", op,
            lengths[b], b, time);
    }
  }
  const double* frame(int64_t b, int64_t t) const { return values.data() + (b * time + t) * classes; }

  /// The labels of all rows, followed by −1.
  Tensor padded(const std::vector<Labels>& rows) const {
    Labels all(static_cast<size_t>(batch * time), -1);
    for (size_t b = 0; b < rows.size(); ++b)
      std::copy(rows[b].begin(), rows[b].end(), all.begin() + static_cast<int64_t>(b) * time);
    return index_tensor(all, {batch, time});
  }
};

double log_add(double a, double b) {
  const double most = std::max(a, b);
  return most == kNever ? kNever : most + std::log(std::exp(a - most) + std::exp(b - most));
}

/// Labels with the log-probabilities of their paths that end in a blank, and of the others.
struct Prefix {
  Labels labels;
  double in_blank = kNever, in_label = kNever;
  double total() const { return log_add(in_blank, in_label); }
};

/// Prefixes in the order in which they were met first.
class Candidates {
 public:
  Prefix& operator[](const Labels& labels) {
    const auto [found, is_new] = places_.try_emplace(labels, all_.size());
    if (is_new) all_.push_back({labels});
    return all_[found->second];
  }
  std::vector<Prefix> best(int64_t beam) {
    std::stable_sort(all_.begin(), all_.end(),
                     [](const Prefix& x, const Prefix& y) { return x.total() > y.total(); });
    if (static_cast<int64_t>(all_.size()) > beam) all_.resize(static_cast<size_t>(beam));
    return std::move(all_);
  }

 private:
  std::vector<Prefix> all_;
  std::map<Labels, size_t> places_;
};

/// Adds the ways on which `prefix` continues with the class c.
void extend(Candidates& candidates, const Prefix& prefix, int64_t c, double p, int64_t blank) {
  if (c == blank) {
    double& same = candidates[prefix.labels].in_blank;
    same = log_add(same, prefix.total() + p);
    return;
  }
  const bool repeats = !prefix.labels.empty() && prefix.labels.back() == c;
  if (repeats) {  // without a blank between them both are one label
    double& same = candidates[prefix.labels].in_label;
    same = log_add(same, prefix.in_label + p);
  }
  Labels longer = prefix.labels;
  longer.push_back(c);
  double& next = candidates[longer].in_label;
  next = log_add(next, (repeats ? prefix.in_blank : prefix.total()) + p);
}

Prefix best_prefix(const Frames& frames, int64_t b, int64_t beam) {
  std::vector<Prefix> prefixes = {{.labels = {}, .in_blank = 0}};
  for (int64_t t = 0; t < frames.lengths[b]; ++t) {
    Candidates candidates;
    for (const Prefix& prefix : prefixes)
      for (int64_t c = 0; c < frames.classes; ++c)
        extend(candidates, prefix, c, frames.frame(b, t)[c], frames.blank);
    prefixes = candidates.best(beam);
  }
  return prefixes.front();
}

}  // namespace

Tensor ctc_greedy(const Tensor& logits, const Tensor& lengths, int64_t blank) {
  const Frames frames("ctc_greedy", logits, lengths, blank);
  std::vector<Labels> rows(static_cast<size_t>(frames.batch));
  for (int64_t b = 0; b < frames.batch; ++b) {
    int64_t before = blank;
    for (int64_t t = 0; t < frames.lengths[b]; ++t) {
      const double* const p = frames.frame(b, t);
      const int64_t best = std::max_element(p, p + frames.classes) - p;
      if (best != blank && best != before) rows[b].push_back(best);
      before = best;
    }
  }
  return frames.padded(rows);
}

CtcLabels ctc_prefix_beam(const Tensor& logits, int64_t beam, const Tensor& lengths, int64_t blank) {
  check(beam >= 1, "ctc_prefix_beam: beam is {}, wanted at least 1", beam);
  const Frames frames("ctc_prefix_beam", logits, lengths, blank);
  std::vector<Labels> rows;
  std::vector<double> log_probabilities;
  for (int64_t b = 0; b < frames.batch; ++b) {
    const Prefix best = best_prefix(frames, b, beam);
    rows.push_back(best.labels);
    log_probabilities.push_back(best.total());
  }
  return {frames.padded(rows), tensor(log_probabilities, Shape{frames.batch}, DType::float64)};
}

}  // namespace vitrine::nn
