#include "cuda/emulator/races.h"

#include <algorithm>

namespace vitrine::emulator {

SharedHistory::Byte& SharedHistory::at(size_t offset) {
  if (pages_.size() <= offset / kPage) pages_.resize(offset / kPage + 1);
  auto& page = pages_[offset / kPage];
  if (!page) page = std::make_unique<Byte[]>(kPage);
  return page[offset % kPage];
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

const Touch* RaceDetector::touch(SharedHistory::Byte& byte, Touch touch) {
  if (byte.phase != phase_) {
    byte.phase = phase_;
    byte.written = false;
    byte.readers = 0;
  }
  const auto races = [&](const Touch& earlier) {
    return earlier.thread != touch.thread && !(is_atomic(earlier.access) && is_atomic(touch.access)) &&
           !is_before(earlier, touch.thread);
  };
  if (byte.written && races(byte.write)) return &byte.write;
  if (!is_write(touch.access)) {
    remember_reader(byte, touch);
    return nullptr;
  }
  for (size_t i = 0; i < byte.readers; ++i)
    if (races(byte.reads[i])) return &byte.reads[i];
  byte.write = touch;
  byte.written = true;
  byte.readers = 0;
  return nullptr;
}

/// Room for a reader of each of eight warps: a barrier in shared memory may order whoever writes
/// with some of them and not with others. Of more warps, which only __syncthreads orders as a rule,
/// the first eight stand for all.
void RaceDetector::remember_reader(SharedHistory::Byte& byte, const Touch& touch) {
  for (size_t i = 0; i < byte.readers; ++i)
    if (is_before(byte.reads[i], touch.thread) && byte.reads[i].access == touch.access) {
      byte.reads[i] = touch;
      return;
    }
  if (byte.readers < SharedHistory::kReaders) {
    byte.reads[byte.readers++] = touch;
    return;
  }
  for (size_t i = 0; i < byte.readers; ++i)
    for (size_t j = 0; j < i; ++j)
      if (byte.reads[i].thread / 32 == byte.reads[j].thread / 32) {
        byte.reads[i] = touch;
        return;
      }
}

}  // namespace vitrine::emulator
