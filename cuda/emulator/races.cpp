#include "cuda/emulator/races.h"

#include <algorithm>

namespace vitrine::emulator {

namespace {

using Cell = SharedHistory::Cell;

/// Room for a reader of each of eight warps: a barrier in shared memory may order whoever writes
/// with some of them and not with others. Of more warps, which only __syncthreads orders as a rule,
/// the first eight stand for all. A reader that is before `touch` needs no room of its own.
void remember_reader(Cell& cell, const Touch& touch, const uint32_t* ordered) {
  for (size_t i = 0; i < cell.readers; ++i) {
    Touch& earlier = cell.reads[i];
    if (earlier.access == touch.access && ordered[earlier.thread] >= earlier.clock) {
      earlier = touch;
      return;
    }
  }
  if (cell.readers < SharedHistory::kReaders) {
    cell.reads[cell.readers++] = touch;
    return;
  }
  for (size_t i = 0; i < cell.readers; ++i)
    for (size_t j = 0; j < i; ++j)
      if (cell.reads[i].thread / 32 == cell.reads[j].thread / 32) {
        cell.reads[i] = touch;
        return;
      }
}

}  // namespace

SharedHistory::Word& SharedHistory::at(size_t offset) {
  const size_t word = offset / kWord;
  if (pages_.size() <= word / kPage) pages_.resize(word / kPage + 1);
  auto& page = pages_[word / kPage];
  if (!page) page = std::make_unique<Word[]>(kPage);
  return page[word % kPage];
}

void RaceDetector::start_block(size_t threads) {
  threads_ = threads;
  table_.resize(std::max(table_.size(), threads * threads));
  row_phase_.assign(std::max(row_phase_.size(), threads), 0);
  ++block_;
  synchronize();
}

void RaceDetector::synchronize() {
  ++phase_;
  through_.clear();
}

uint32_t* RaceDetector::clocks(size_t thread) {
  uint32_t* const row = &table_[thread * threads_];
  if (row_phase_[thread] != phase_) {
    row_phase_[thread] = phase_;
    std::fill_n(row, threads_, 0);
    row[thread] = 1;
  }
  return row;
}

void RaceDetector::synchronize(size_t first, uint32_t mask) {
  Clocks met(threads_);
  const auto for_lanes = [&](auto&& f) {
    for (size_t lane = 0; lane < 32; ++lane)
      if ((mask >> lane & 1) != 0) f(first + lane, clocks(first + lane));
  };
  for_lanes([&](size_t, const uint32_t* row) {
    for (size_t i = 0; i < threads_; ++i) met[i] = std::max(met[i], row[i]);
  });
  for_lanes([&](size_t thread, uint32_t* row) {
    std::copy(met.begin(), met.end(), row);
    ++row[thread];
  });
}

void RaceDetector::synchronize_through(const void* address, size_t thread) {
  Clocks& met = through_[address];
  met.resize(threads_);
  uint32_t* const row = clocks(thread);
  for (size_t i = 0; i < threads_; ++i) met[i] = row[i] = std::max(met[i], row[i]);
  ++row[thread];
}

const Touch* RaceDetector::touch(SharedHistory& history, size_t offset, size_t size, const Touch& touch) {
  constexpr size_t kWord = SharedHistory::kWord;
  const uint32_t* const ordered = clocks(touch.thread);
  for (size_t i = offset; i < offset + size;) {
    SharedHistory::Word& word = history.at(i);
    const bool whole = i % kWord == 0 && i + kWord <= offset + size;
    if (!whole && word.divided != phase_) divide(word);
    const bool divided = word.divided == phase_;
    Cell& cell = divided ? word.bytes[i % kWord] : word.whole;
    if (const Touch* const earlier = this->touch(cell, touch, ordered)) return earlier;
    i += divided ? 1 : kWord;
  }
  return nullptr;
}

/// From now on each byte has accesses of its own, after those of the whole word.
void RaceDetector::divide(SharedHistory::Word& word) {
  if (!word.bytes) word.bytes = std::make_unique<Cell[]>(SharedHistory::kWord);
  std::fill_n(word.bytes.get(), SharedHistory::kWord, word.whole);
  word.divided = phase_;
}

/// `ordered`: the clocks of the thread.
const Touch* RaceDetector::touch(Cell& cell, const Touch& touch, const uint32_t* ordered) {
  if (cell.phase != phase_) {
    cell.phase = phase_;
    cell.written = false;
    cell.readers = 0;
  }
  const auto races = [&](const Touch& earlier) {
    return earlier.thread != touch.thread && !(is_atomic(earlier.access) && is_atomic(touch.access)) &&
           ordered[earlier.thread] < earlier.clock;
  };
  if (cell.written && races(cell.write)) return &cell.write;
  if (!is_write(touch.access)) {
    remember_reader(cell, touch, ordered);
    return nullptr;
  }
  for (size_t i = 0; i < cell.readers; ++i)
    if (races(cell.reads[i])) return &cell.reads[i];
  cell.write = touch;
  cell.written = true;
  cell.readers = 0;
  return nullptr;
}

}  // namespace vitrine::emulator
