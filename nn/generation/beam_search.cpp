#include "nn/generation/beam_search.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "core/memory/machine.h"
#include "core/tape.h"
#include "nn/generation/text_batch.h"
#include "ops/softmax.h"
#include "ops/view.h"

namespace vitrine::nn {
namespace {

/// A beam continued by one token.
struct Candidate {
  double log_probability;
  int64_t beam, token;
};

bool better(const Candidate& x, const Candidate& y) {
  if (x.log_probability != y.log_probability) return x.log_probability > y.log_probability;
  return x.beam != y.beam ? x.beam < y.beam : x.token < y.token;
}

/// Log-probabilities of the next tokens, [rows, V].
struct NextTokens {
  std::vector<double> values;
  int64_t vocabulary;

  explicit NextTokens(const Tensor& logits) : vocabulary(logits.size(1)) {
    const bool wide = logits.dtype() == DType::float64;
    values = log_softmax(wide ? logits : cast(logits, DType::float32)).values();
    for (const double x : values)
      check(!std::isnan(x), "beam_search: the model's logits contain NaN or +∞, or nothing but −∞");
  }
  const double* row(int64_t i) const { return values.data() + i * vocabulary; }
};

/// What all prompts share.
struct Plan {
  int64_t count;
  const BeamOptions& options;
  const Stop& stop;

  size_t width() const { return static_cast<size_t>(options.beam); }
  double penalty(int64_t length) const {
    const auto n = static_cast<double>(length);
    return std::pow(options.length_penalty == LengthPenalty::power ? n : (5 + n) / 6, options.length_power);
  }
};

/// The texts that go on, as TextBatch::extend expects them.
struct Successors {
  std::vector<int64_t> parents, tokens;
};

/// The beams of one prompt. In the batch they are neighbors.
class Search {
 public:
  Search(const Plan& plan, size_t prompt_length) : plan_(plan), begin_(prompt_length), beams_{0.0} {}

  std::vector<BeamText> results;  ///< the highest score first
  size_t beams() const { return beams_.size(); }

  /// Continues the beams by one token. They are the texts of the batch from `first` on.
  void step(const TextBatch& batch, size_t first, const NextTokens& next, bool last, Successors& successors) {
    std::vector<Candidate> going_on;
    // Mostly twice the beam suffices, because one stop token ends each beam at most once.
    size_t wanted = 2 * plan_.width();
    while (!choose(batch, first, best_candidates(first, next, wanted), wanted, going_on)) wanted *= 2;
    if (last)
      for (const Candidate& c : going_on) add_result(batch, first, c, false);
    if (last || nothing_better(going_on)) going_on.clear();
    beams_.clear();
    for (const Candidate& c : going_on) {
      beams_.push_back(c.log_probability);
      successors.parents.push_back(static_cast<int64_t>(first) + c.beam);
      successors.tokens.push_back(c.token);
    }
  }

 private:
  /// Adds the results among the best candidates, and finds those that go on. False, and nothing is
  /// added, if more than the `wanted` candidates are needed.
  bool choose(const TextBatch& batch, size_t first, const std::vector<Candidate>& best, size_t wanted,
              std::vector<Candidate>& going_on) {
    const size_t width = plan_.width();
    std::vector<Candidate> ended;
    going_on.clear();
    for (size_t i = 0; i < best.size() && going_on.size() < width; ++i) {
      const Candidate& c = best[i];
      const bool ends = plan_.stop.ends(batch.text(first + static_cast<size_t>(c.beam)), begin_, c.token);
      if (!ends) going_on.push_back(c);
      if (ends && i < width) ended.push_back(c);
    }
    if (going_on.size() < width && best.size() == wanted) return false;
    for (const Candidate& c : ended) add_result(batch, first, c, true);
    return true;
  }

  /// The `wanted` best continuations by one token, best first; fewer if there are no more.
  std::vector<Candidate> best_candidates(size_t first, const NextTokens& next, size_t wanted) const {
    std::vector<Candidate> heap;  // its front is the worst
    for (size_t i = 0; i < beams_.size(); ++i) {
      const double* const row = next.row(static_cast<int64_t>(first + i));
      for (int64_t token = 0; token < next.vocabulary; ++token) {
        const Candidate c = {beams_[i] + row[token], static_cast<int64_t>(i), token};
        if (c.log_probability == -INFINITY) continue;
        const bool full = heap.size() == wanted;
        if (full && !better(c, heap.front())) continue;
        if (full) std::pop_heap(heap.begin(), heap.end(), better), heap.pop_back();
        heap.push_back(c);
        std::push_heap(heap.begin(), heap.end(), better);
      }
    }
    std::sort_heap(heap.begin(), heap.end(), better);
    return heap;
  }

  void add_result(const TextBatch& batch, size_t first, const Candidate& c, bool ended) {
    std::vector<int64_t> text = batch.text(first + static_cast<size_t>(c.beam));
    text.push_back(c.token);
    const double score = c.log_probability / plan_.penalty(static_cast<int64_t>(text.size() - begin_));
    const auto place = std::find_if(results.begin(), results.end(),
                                    [score](const BeamText& other) { return other.score < score; });
    results.insert(place, {std::move(text), c.log_probability, score, ended});
    if (results.size() > plan_.width()) results.pop_back();
  }

  /// Whether no continuation of the beams can become a result. Log-probabilities do not grow, and
  /// the penalty is at most that of `count` tokens.
  bool nothing_better(const std::vector<Candidate>& beams) const {
    if (results.size() < plan_.width() || beams.empty()) return false;
    return beams.front().log_probability / plan_.penalty(plan_.count) <= results.back().score;
  }

  const Plan& plan_;
  size_t begin_;               ///< where the continuation begins
  std::vector<double> beams_;  ///< their log-probabilities, the highest first
};

}  // namespace

void BeamOptions::list(OptionList& o) {
  o.group("Beam search");
  o("beam", beam, "continuations that are kept at each step").at_least(1).decides(Role::files);
  o("length-power", length_power, "power of the length penalty; the larger, the longer the text")
      .at_least(0)
      .decides(Role::files);
  o("length-penalty", length_penalty, "for n tokens: n (power) or (5 + n)/6 (gnmt), to the power")
      .decides(Role::files);
}

std::vector<std::vector<BeamText>> beam_search(LanguageModel& model,
                                               const std::vector<std::vector<int64_t>>& prompts,
                                               int64_t count, const BeamOptions& options,
                                               const BeamCall& call) {
  check(count >= 1, "beam_search: {} tokens are wanted, and the number must be at least 1", count);
  check_options(options, "beam_search");
  check_memory(static_cast<double>(options.beam) * sizeof(Candidate),
               fmt::format("beam_search: {} beams", options.beam));
  call.stop.validate("beam_search", model.vocabulary());
  const Tape::Pause pause;
  const ModeScope evaluation(model, false);
  TextBatch batch("beam_search", model, model.device(), prompts, call.memory);
  const Plan plan = {count, options, call.stop};
  std::vector<Search> searches;
  for (const auto& prompt : prompts) searches.emplace_back(plan, prompt.size());
  for (int64_t step = 1; batch.size() > 0; ++step) {
    const NextTokens next(batch.next_logits());
    Successors successors;
    size_t first = 0;
    for (Search& search : searches) {
      const size_t beams = search.beams();
      if (beams > 0) search.step(batch, first, next, step == count, successors);
      first += beams;
    }
    batch.extend(successors.parents, successors.tokens);
  }
  std::vector<std::vector<BeamText>> results;
  for (Search& search : searches) results.push_back(std::move(search.results));
  return results;
}

}  // namespace vitrine::nn
