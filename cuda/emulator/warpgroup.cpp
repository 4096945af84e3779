#include "cuda/emulator/warpgroup.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <limits>

#include "core/error.h"
#include "cuda/emulator/mbarrier.h"

namespace vitrine::emulator {
namespace {

constexpr int kRows = 64, kMostColumns = 256, kDepth = 16, kThreads = 128, kChunk = 8;

/// A matrix as its descriptor tells it (PTX ISA, "Matrix Descriptor Format" and "Strides"): lines
/// of 128 bytes, or of 32 bytes of them, in groups of 8.
class SharedMatrix {
 public:
  SharedMatrix(uint64_t descriptor, bool along_k) : along_k_(along_k) {
    const auto field = [&](int bit) { return static_cast<uint32_t>(descriptor >> bit & 0x3FFF) << 4; };
    check(descriptor >> 62 == 1 && (descriptor >> 49 & 7) == 0,
          "wgmma: the emulator knows the swizzle of 128 bytes alone, without a base offset");
    begin_ = ThreadBlock::current().at_shared_address(field(0));
    leading_ = field(16), stride_ = field(32);
  }

  /// Where the 8 elements from (row of x or column of y) i and from k on lie that follow each other
  /// in memory.
  char* chunk(int i, int k) const {
    return swizzled(along_k_ ? begin_ + i / 8 * stride_ + i % 8 * 128 + k * 2
                             : begin_ + i / 64 * leading_ + k / 8 * stride_ + k % 8 * 128 + i % 64 * 2);
  }

  /// Calls f(chunk, i, k, step in i, step in k) for those of lines (columns) `first` to `last`.
  template <class F>
  void for_chunks(int first, int last, F&& f) const {
    for (int i = first; i < last; i += along_k_ ? 1 : kChunk)
      for (int k = 0; k < kDepth; k += along_k_ ? kChunk : 1) f(chunk(i, k), i, k);
  }

  /// values[k·count + i], or values[i·kDepth + k].
  void read(float* values, int count, bool k_first, float (*value)(uint16_t)) const {
    for_chunks(0, count, [&](const char* from, int i, int k) {
      uint16_t bits[kChunk];
      std::memcpy(bits, from, sizeof(bits));
      for (int e = 0; e < kChunk; ++e) {
        const int at_i = along_k_ ? i : i + e, at_k = along_k_ ? k + e : k;
        values[k_first ? at_k * count + at_i : at_i * kDepth + at_k] = value(bits[e]);
      }
    });
  }

 private:
  char* begin_;
  ptrdiff_t leading_, stride_;
  bool along_k_;
};

uint64_t content(const WarpgroupProduct& p, int columns) {
  uint64_t hash = 0;
  const auto add = [&](const char* chunk, int, int) {
    uint64_t words[2];
    std::memcpy(words, chunk, sizeof(words));
    for (const uint64_t word : words) hash = (hash ^ word) * 0x9E3779B97F4A7C15 + (hash >> 32);
  };
  if (!p.x_in_registers) SharedMatrix(p.x, p.x_along_k).for_chunks(0, kRows, add);
  SharedMatrix(p.y, p.y_along_k).for_chunks(0, columns, add);
  return hash;
}

/// Row and column of a thread's element `i` of a result, and of word `i / 2` of a fragment.
int row_of(int thread, int i) { return thread / 32 * 16 + thread % 32 / 4 + i / 2 % 2 * 8; }
int column_of(int thread, int i) { return i / 4 * 8 + thread % 4 * 2 + i % 2; }

/// Makes one product for all threads; `of(t)` are thread t's sums, `fragment_of(t)` its part of x.
template <class Of, class FragmentOf>
void multiply(const WarpgroupProduct& p, int count, const Of& of, const FragmentOf& fragment_of) {
  static thread_local float x[kRows * kDepth], y[kDepth * kMostColumns], rows[kRows][kMostColumns];
  const int columns = 2 * count;
  if (p.x_in_registers) {
    for (int t = 0; t < kThreads; ++t)
      for (int i = 0; i < 8; ++i)
        x[row_of(t, i) * kDepth + column_of(t, i)] =
            p.value(static_cast<uint16_t>(fragment_of(t)[i / 2] >> i % 2 * 16));
  } else {
    SharedMatrix(p.x, p.x_along_k).read(x, kRows, false, p.value);
  }
  SharedMatrix(p.y, p.y_along_k).read(y, columns, true, p.value);
  const auto for_elements = [&](auto&& f) {
    for (int t = 0; t < kThreads; ++t)
      for (int i = 0; i < count; ++i) f(rows[row_of(t, i)][column_of(t, i)], of(t)[i]);
  };
  for_elements([&](float& element, float& sum) { element = p.add ? sum : 0; });
  for (int i = 0; i < kRows; ++i)
    for (int k = 0; k < kDepth; ++k)
      for (int j = 0; j < columns; ++j) rows[i][j] += x[i * kDepth + k] * y[k * columns + j];
  for_elements([&](float& element, float& sum) { sum = element; });
}

/// `change` is the first thread's to make.
template <class F>
void change_registers(Place place, F&& change) {
  ThreadBlock& block = ThreadBlock::current();
  block.exchange_in_warpgroup(0, place);
  const unsigned thread = block.thread_number();
  if (thread % kThreads == 0)
    change(block, block.registers(), block.registers().of_thread[thread / kThreads]);
  block.exchange_in_warpgroup(0, place);
}

}  // namespace

void give_registers(unsigned count, Place place) {
  change_registers(place, [&](ThreadBlock& block, Registers& all, unsigned& mine) {
    if (count > mine)
      block.fail_here(fmt::format("give_registers: threads that have {} cannot keep {}", mine, count));
    all.left += uint64_t{mine - count} * kThreads;
    ++all.times_given;
    mine = count;
  });
}

void take_registers(unsigned count, Place place) {
  change_registers(place, [&](ThreadBlock& block, Registers& all, unsigned& mine) {
    if (count < mine)
      block.fail_here(
          fmt::format("take_registers: threads that have {} would lose some to have {}", mine, count));
    const uint64_t more = uint64_t{count - mine} * kThreads;
    while (all.left < more) block.wait_for_change(all.times_given, place);
    all.left -= more;
    mine = count;
  });
}

WarpgroupProducts::Held& WarpgroupProducts::held(const float* of) {
  const auto found = std::find_if(held_.begin(), held_.end(), [&](const Held& h) { return h.of == of; });
  if (found == held_.end())
    ThreadBlock::current().fail_here(of == nullptr
                                         ? "wgmma: the emulator holds no more than 4 matrices of sums"
                                         : "wgmma: sums that do not belong to the tensor cores");
  return *found;
}

void WarpgroupProducts::begin(float* sums, int count) {
  fenced_ = false;
  Held& h = held(nullptr);
  h.of = sums, h.count = count;
  std::copy_n(sums, count, h.values);
  std::fill_n(sums, count, std::numeric_limits<float>::quiet_NaN());
}

void WarpgroupProducts::add(const float* sums, WarpgroupProduct product) {
  if (count_ == under_way_.size())
    ThreadBlock::current().fail_here("wgmma: more than 32 products wait; the emulator holds no more");
  if (!fenced_)
    ThreadBlock::current().fail_here(
        "wgmma: a product without a fence, which what was written before must pass");
  const Held& h = held(sums);
  product.held = static_cast<int>(&h - held_.data());
  product.group = group_;
  if (ThreadBlock::current().thread_number() % kThreads == 0) product.content = content(product, 2 * h.count);
  under_way_[count_++] = product;
}

void WarpgroupProducts::wait(int open, const void* pc) {
  fenced_ = false;
  const auto end = under_way_.begin() + count_;
  const auto done = std::find_if(under_way_.begin(), end,
                                 [&](const WarpgroupProduct& p) { return p.group >= group_ - open; });
  // Each warp reads its rows of x, and a quarter of y for all; its first lane stands for it.
  ThreadBlock& block = ThreadBlock::current();
  const unsigned thread = block.thread_number() % kThreads;
  if (const int warp = static_cast<int>(thread) / 32; thread % 32 == 0)
    for (auto p = under_way_.begin(); p != done; ++p) {
      const auto note = [&](char* chunk, int, int) { note_access(chunk, 2 * kChunk, Access::read, pc, 2); };
      const int columns = held_[p->held].count / 2;
      if (!p->x_in_registers) SharedMatrix(p->x, p->x_along_k).for_chunks(warp * 16, warp * 16 + 16, note);
      SharedMatrix(p->y, p->y_along_k).for_chunks(warp * columns, (warp + 1) * columns, note);
    }
  // The first thread multiplies for all, which wait for it.
  const Place place{__FILE__, __LINE__};
  const uint64_t* const all = block.exchange_in_warpgroup(reinterpret_cast<uint64_t>(this), place);
  if (thread == 0 && done != under_way_.begin()) {
    const auto of = [&](int t) { return reinterpret_cast<WarpgroupProducts*>(all[t]); };
    for (int t = 0; t < kThreads; ++t)
      if (of(t)->count_ != count_ || of(t)->group_ != group_)
        block.fail_here("wgmma: the threads of a warpgroup have not asked for the same products");
    for (auto p = under_way_.begin(); p != done; ++p) {
      const int count = held_[p->held].count;
      if (content(*p, 2 * count) != p->content)
        block.fail_here("wgmma: x or y has changed before the product was waited for");
      const auto number = p - under_way_.begin();
      note_matrix_products(static_cast<uint64_t>(kRows / 16 * 2 * count / 8));
      multiply(
          *p, count, [&](int t) { return of(t)->held_[p->held].values; },
          [&](int t) { return of(t)->under_way_[number].fragment; });
    }
  }
  block.exchange_in_warpgroup(0, place);
  count_ = std::move(done, end, under_way_.begin()) - under_way_.begin();
}

void WarpgroupProducts::finish(float* sums) {
  Held& h = held(sums);
  for (size_t i = 0; i < count_; ++i)
    if (under_way_[i].held == &h - held_.data())
      ThreadBlock::current().fail_here("wgmma: sums are finished before their products have been waited for");
  std::copy_n(h.values, h.count, sums);
  h.of = nullptr;
}

}  // namespace vitrine::emulator
