#include "cuda/emulator/counts.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <mutex>

namespace vitrine::emulator {
namespace {

constexpr uint64_t kTransaction = 32, kBanks = 32, kWord = 4;

struct Totals {
  std::mutex mutex;
  std::map<std::string, Counts> by_kernel;
  std::atomic<bool> on = false;

  Totals() {
    const char* text = std::getenv("VITRINE_EMULATOR_COUNTS");
    on = text != nullptr && std::string(text) == "1";
    if (on) std::atexit([] { fmt::print(stderr, "{}", to_table(kernel_counts())); });
  }
};

/// Never destroyed: it is printed at the end of the program.
Totals& totals() {
  static Totals* const instance = new Totals;
  return *instance;
}

/// How many different numbers there are.
uint64_t count_different(std::vector<uint64_t>& numbers) {
  std::sort(numbers.begin(), numbers.end());
  return static_cast<uint64_t>(std::unique(numbers.begin(), numbers.end()) - numbers.begin());
}

std::string percent(uint64_t part, uint64_t whole) {
  return whole == 0 ? "-"
                    : fmt::format("{:.0f} %", 100.0 * static_cast<double>(part) / static_cast<double>(whole));
}

}  // namespace

Counts& Counts::operator+=(const Counts& o) {
  traced = traced && o.traced;
  launches += o.launches;
  loads += o.loads, stores += o.stores, atomics += o.atomics;
  bytes += o.bytes, accesses += o.accesses;
  transactions += o.transactions, least_transactions += o.least_transactions;
  shared_loads += o.shared_loads, shared_stores += o.shared_stores, shared_atomics += o.shared_atomics;
  shared_accesses += o.shared_accesses, bank_conflicts += o.bank_conflicts;
  matrix_products += o.matrix_products;
  return *this;
}

void count_kernels(bool on) {
  Totals& t = totals();
  const std::lock_guard lock(t.mutex);
  t.by_kernel.clear();
  t.on = on;
}

bool counts_kernels() { return totals().on; }

void add_counts(const std::string& kernel, const Counts& counts) {
  Totals& t = totals();
  const std::lock_guard lock(t.mutex);
  t.by_kernel[kernel] += counts;
}

std::map<std::string, Counts> kernel_counts() {
  Totals& t = totals();
  const std::lock_guard lock(t.mutex);
  return t.by_kernel;
}

std::string to_table(const std::map<std::string, Counts>& kernels) {
  size_t width = 6;
  for (const auto& [name, counts] : kernels) width = std::max(width, name.size());
  std::string table = fmt::format(
      "{:<{}}  {:>8}  {:>10}  {:>10}  {:>8}  {:>12}  {:>12}  {:>10}  {:>9}  {:>12}  {:>12}  {:>9}  {:>9}\n",
      "kernel", width, "launches", "loads", "stores", "atomics", "bytes", "transactions", "per access",
      "coalesced", "shared loads", "shared stores", "conflicts", "mma");
  for (const auto& [name, c] : kernels) {
    table += fmt::format("{:<{}}  {:>8}", name, width, c.launches);
    if (!c.traced) {
      table +=
          "  not traced: compile its file with VITRINE_TRACE_OPTIONS, or the library with VITRINE_EMULATOR_TRACE=ON\n";
      continue;
    }
    const double per_access =
        c.accesses == 0 ? 0 : static_cast<double>(c.transactions) / static_cast<double>(c.accesses);
    table += fmt::format(
        "  {:>10}  {:>10}  {:>8}  {:>12}  {:>12}  {:>10.1f}  {:>9}  {:>12}  {:>13}  {:>9}  {:>9}\n", c.loads,
        c.stores, c.atomics, c.bytes, c.transactions, per_access,
        percent(c.least_transactions, c.transactions), c.shared_loads, c.shared_stores, c.bank_conflicts,
        c.matrix_products);
  }
  return table;
}

void WarpCounter::start_block(size_t threads) {
  counts_ = {};
  lanes_.assign(threads, {});
  warps_.assign((threads + 31) / 32, {});
}

void WarpCounter::access(size_t thread, const void* pc, const void* address, size_t size, Access access,
                         bool shared) {
  if (shared) {
    ++(is_atomic(access)  ? counts_.shared_atomics
       : is_write(access) ? counts_.shared_stores
                          : counts_.shared_loads);
  } else {
    ++(is_atomic(access) ? counts_.atomics : is_write(access) ? counts_.stores : counts_.loads);
    counts_.bytes += size;
  }
  Lane& lane = lanes_[thread];
  Warp& warp = warps_[thread / 32];
  while (warp.first_phase + warp.phases.size() <= lane.phase) warp.phases.emplace_back();
  auto& requests = warp.phases[lane.phase - warp.first_phase][pc];
  const size_t i = lane.made[pc]++;
  if (requests.size() <= i) requests.resize(i + 1);
  Request& r = requests[i];
  r.lane_addresses[thread % 32] = reinterpret_cast<uint64_t>(address);
  r.lanes |= uint32_t{1} << thread % 32;
  r.size = static_cast<uint8_t>(std::min<size_t>(size, 255));
  r.shared = shared;
}

void WarpCounter::advance(size_t thread) {
  ++lanes_[thread].phase;
  lanes_[thread].made.clear();
  finish_phases(thread / 32);
}

void WarpCounter::end(size_t thread) {
  lanes_[thread].alive = false;
  finish_phases(thread / 32);
}

/// Counts the phases that every lane of the warp has left.
void WarpCounter::finish_phases(size_t warp_index) {
  Warp& warp = warps_[warp_index];
  uint64_t reached = UINT64_MAX;
  for (size_t i = warp_index * 32; i < std::min(lanes_.size(), warp_index * 32 + 32); ++i)
    if (lanes_[i].alive) reached = std::min(reached, lanes_[i].phase);
  while (!warp.phases.empty() && warp.first_phase < reached) {
    for (const auto& [pc, requests] : warp.phases.front())
      for (const Request& r : requests) finish(r);
    warp.phases.pop_front();
    ++warp.first_phase;
  }
}

void WarpCounter::finish(const Request& r) {
  std::vector<uint64_t> parts;
  const auto for_lanes = [&](size_t begin, size_t end, uint64_t unit) {
    parts.clear();
    for (size_t lane = begin; lane < end; ++lane)
      if ((r.lanes >> lane & 1) != 0)
        for (uint64_t p = r.lane_addresses[lane] / unit; p <= (r.lane_addresses[lane] + r.size - 1) / unit;
             ++p)
          parts.push_back(p);
    return count_different(parts);
  };
  if (!r.shared) {
    ++counts_.accesses;
    counts_.transactions += for_lanes(0, 32, kTransaction);
    counts_.least_transactions += (for_lanes(0, 32, 1) + kTransaction - 1) / kTransaction;
    return;
  }
  ++counts_.shared_accesses;
  // Accesses of 8 and 16 bytes are served to a half and a quarter of the warp at a time.
  const size_t group = r.size <= kWord ? 32 : r.size <= 2 * kWord ? 16 : 8;
  for (size_t begin = 0; begin < 32; begin += group) {
    const uint64_t words = for_lanes(begin, begin + group, kWord);
    std::array<uint64_t, kBanks> rounds{};
    for (size_t i = 0; i < words; ++i) ++rounds[parts[i] % kBanks];
    const uint64_t most = *std::max_element(rounds.begin(), rounds.end());
    counts_.bank_conflicts += most > 1 ? most - 1 : 0;
  }
}

}  // namespace vitrine::emulator
