#include "nn/text/bpe.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <queue>

#include "core/error.h"
#include "nn/text/byte_alphabet.h"

namespace vitrine::nn {
namespace {

uint64_t key_of(int32_t left, int32_t right) {
  return static_cast<uint64_t>(static_cast<uint32_t>(left)) << 32 | static_cast<uint32_t>(right);
}

}  // namespace

Bpe::Bpe(VocabularyTable vocabulary, std::vector<Merge> merges, bool whole_words)
    : vocabulary_(std::move(vocabulary)), merges_(std::move(merges)), whole_words_(whole_words) {
  ranks_.reserve(merges_.size());
  const auto known = [&](int32_t id) { return id >= 0 && id < vocabulary_.size(); };
  for (const Merge& m : merges_) {
    const size_t rank = ranks_.size();
    check(known(m.left) && known(m.right) && known(m.merged),
          "Bpe: merge {} joins {} and {} to {}, wanted tokens in [0, {})", rank, m.left, m.right, m.merged,
          vocabulary_.size());
    check(vocabulary_[m.left] + vocabulary_[m.right] == vocabulary_[m.merged],
          "Bpe: merge {} joins \"{}\" and \"{}\" to \"{}\"", rank, vocabulary_[m.left], vocabulary_[m.right],
          vocabulary_[m.merged]);
    check(ranks_.emplace(key_of(m.left, m.right), static_cast<int32_t>(rank)).second,
          "Bpe: merge {} joins \"{}\" and \"{}\", as an earlier merge does", rank, vocabulary_[m.left],
          vocabulary_[m.right]);
  }
}

int32_t Bpe::rank_of(int32_t left, int32_t right) const {
  const auto found = ranks_.find(key_of(left, right));
  return found == ranks_.end() ? kNone : found->second;
}

std::vector<int32_t> Bpe::bytes_of(std::string_view word) const {
  std::vector<int32_t> ids;
  ids.reserve(word.size());
  for (size_t i = 0; i < word.size(); ++i) {
    const auto id = vocabulary_.find(word.substr(i, 1));
    check(id.has_value(), "encode: the vocabulary has no token for the byte 0x{:02X}",
          static_cast<unsigned char>(word[i]));
    ids.push_back(*id);
  }
  return ids;
}

std::vector<std::vector<int32_t>> Bpe::merge_steps(std::string_view word) const {
  if (const auto whole = vocabulary_.find(word); whole_words_ && whole) return {{*whole}};
  std::vector<std::vector<int32_t>> steps = {bytes_of(word)};
  while (true) {
    std::vector<int32_t> ids = steps.back();
    size_t best = ids.size();
    int32_t best_rank = kNone;
    for (size_t i = 0; i + 1 < ids.size(); ++i) {
      const int32_t rank = rank_of(ids[i], ids[i + 1]);
      if (rank != kNone && (best_rank == kNone || rank < best_rank)) best = i, best_rank = rank;
    }
    if (best_rank == kNone) return steps;
    ids[best] = merges_[static_cast<size_t>(best_rank)].merged;
    ids.erase(ids.begin() + static_cast<int64_t>(best) + 1);
    steps.push_back(std::move(ids));
  }
}

void Bpe::append_ids(std::string_view word, std::vector<int32_t>& ids) const {
  if (const auto whole = vocabulary_.find(word); whole && (whole_words_ || word.size() == 1)) {
    ids.push_back(*whole);
    return;
  }
  // The tokens of the word are a linked list, so that a merge moves no token. A token that was
  // merged into its left neighbour has the id kNone.
  struct Link {
    int32_t id;
    int64_t before, after;
  };
  const std::vector<int32_t> bytes = bytes_of(word);
  const auto size = static_cast<int64_t>(bytes.size());
  std::vector<Link> links(bytes.size());
  const auto at = [&](int64_t i) -> Link& { return links[static_cast<size_t>(i)]; };
  for (int64_t i = 0; i < size; ++i) at(i) = {bytes[static_cast<size_t>(i)], i - 1, i + 1};

  // Pairs by the rank of their merge, and from left to right among those of one rank.
  using Pair = std::pair<int32_t, int64_t>;  // the rank, and where the left token is
  std::priority_queue<Pair, std::vector<Pair>, std::greater<>> queue;
  const auto enter = [&](int64_t left) {
    if (left < 0 || at(left).after >= size) return;
    const int32_t rank = rank_of(at(left).id, at(at(left).after).id);
    if (rank != kNone) queue.emplace(rank, left);
  };
  for (int64_t i = 0; i + 1 < size; ++i) enter(i);

  while (!queue.empty()) {
    const auto [rank, i] = queue.top();
    queue.pop();
    const int64_t next = at(i).after;
    // An entry is out of date if a merge has changed one of its tokens since.
    if (at(i).id == kNone || next >= size || rank_of(at(i).id, at(next).id) != rank) continue;
    at(i).id = merges_[static_cast<size_t>(rank)].merged;
    at(next).id = kNone;
    at(i).after = at(next).after;
    if (at(i).after < size) at(at(i).after).before = i;
    enter(at(i).before);
    enter(i);
  }
  for (int64_t i = 0; i < size; i = at(i).after) ids.push_back(at(i).id);
}

std::string Bpe::spelling(const std::string& token) const { return spell_bytes(token); }

void Bpe::write(nlohmann::ordered_json& file) const {
  nlohmann::ordered_json vocabulary = nlohmann::ordered_json::object(),
                         merges = nlohmann::ordered_json::array();
  // By emplace_back: a look-up by key would search all members so far.
  auto& members = vocabulary.get_ref<nlohmann::ordered_json::object_t&>();
  for (int64_t id = 0; id < vocabulary_.size(); ++id)
    members.emplace_back(spell_bytes(vocabulary_[id]), static_cast<int32_t>(id));
  for (const Merge& m : merges_)
    merges.push_back(spell_bytes(vocabulary_[m.left]) + " " + spell_bytes(vocabulary_[m.right]));
  file["decoder"] = {
      {"type", "ByteLevel"}, {"add_prefix_space", true}, {"trim_offsets", true}, {"use_regex", true}};
  file["model"] = {{"type", "BPE"},
                   {"dropout", nullptr},
                   {"unk_token", nullptr},
                   {"continuing_subword_prefix", nullptr},
                   {"end_of_word_suffix", nullptr},
                   {"fuse_unk", false},
                   {"byte_fallback", false},
                   {"ignore_merges", whole_words_},
                   {"vocab", std::move(vocabulary)},
                   {"merges", std::move(merges)}};
}

}  // namespace vitrine::nn
