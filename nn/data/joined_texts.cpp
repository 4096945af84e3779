#include "nn/data/joined_texts.h"

#include "core/error.h"
#include "nn/data/padding.h"

namespace vitrine::nn {
namespace {

void append(JoinedTexts& all, const Tokens& ids, int64_t segment) {
  all.ids.insert(all.ids.end(), ids.begin(), ids.end());
  all.segments.resize(all.ids.size(), segment);
}

}  // namespace

JoinedTexts join_texts(const PipelineTokenizer& tokenizer, std::string_view a,
                       std::optional<std::string_view> b, int64_t longest) {
  const Tokens front(tokenizer.stages().front), back(tokenizer.stages().back);
  Tokens first = tokenizer.encode(a), second = b ? tokenizer.encode(*b) : Tokens();
  const int64_t texts = b ? 2 : 1, room = longest - front.size() - texts * back.size();
  check(room >= texts, "join_texts: longest is {}, which leaves no room for {} next to {} special tokens",
        longest, b ? "two texts" : "a text", longest - room);
  while (first.size() + second.size() > room) {
    Tokens& longer = first.size() >= second.size() ? first : second;
    longer = longer.slice(0, longer.size() - 1);
  }
  JoinedTexts all;
  append(all, front, 0), append(all, first, 0), append(all, back, 0);
  if (b) append(all, second, 1), append(all, back, 1);
  return all;
}

Batch joined_batch(std::span<const JoinedTexts> rows, int64_t fill) {
  std::vector<std::vector<int64_t>> ids, segments;
  for (const JoinedTexts& row : rows) ids.push_back(row.ids), segments.push_back(row.segments);
  const Padded padded = pad_ids(ids, fill);
  return {{padded.values, padded.lengths, pad_ids(segments, 0).values}, std::ssize(rows)};
}

}  // namespace vitrine::nn
