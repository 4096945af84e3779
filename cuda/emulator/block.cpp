#include "cuda/emulator/block.h"

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <numeric>

#include "core/error.h"
#include "core/parallel.h"
#include "cuda/emulator/limits.h"
#include "cuda/emulator/mbarrier.h"
#include "cuda/emulator/trace.h"

namespace vitrine::emulator {
namespace {

constexpr unsigned kRegisters = 65536;  // of a multiprocessor

std::atomic<uint64_t>& order_seed() {
  static std::atomic<uint64_t> seed = [] {
    const char* text = std::getenv("VITRINE_EMULATOR_SEED");
    return text == nullptr ? 0 : std::strtoull(text, nullptr, 10);
  }();
  return seed;
}

thread_local ThreadBlock* current_block = nullptr;

std::string to_string(Place p) {
  const std::string file = p.file;
  return fmt::format("{}:{}", file.substr(file.rfind('/') + 1), p.line);
}

}  // namespace

std::string to_string(Index3 i) { return fmt::format("({}, {}, {})", i.x, i.y, i.z); }

std::string without_parentheses(const std::string& kernel) {
  return kernel.starts_with('(') ? kernel.substr(1, kernel.size() - 2) : kernel;
}

void set_thread_order(uint64_t seed) { order_seed() = seed; }

Index3 thread_index() { return ThreadBlock::current().thread(); }
Index3 block_index() { return ThreadBlock::current().index(); }
Size3 block_size() { return ThreadBlock::current().launch().block; }
Size3 grid_size() { return ThreadBlock::current().launch().grid; }

void pass_turn() {
  if (current_block != nullptr) current_block->pass_turn();
}

void fence() {
  std::atomic_thread_fence(std::memory_order_seq_cst);
  pass_turn();
}

void note_access(const void* address, size_t size, Access access, const void* pc, size_t element) {
  if (ThreadBlock* const block = ThreadBlock::traced())
    block->note_access(address, size, access, pc, element);
}

void note_vector(const void* address, size_t size, size_t count, Access access, const void* pc) {
  const size_t alignment = std::min<size_t>(size * count, 16);
  check(reinterpret_cast<uintptr_t>(address) % alignment == 0, "misaligned address: {} elements of {} bytes",
        count, size);
  note_access(address, size * count, access, pc, size);
}

void note_matrix_products(uint64_t count) {
  if (ThreadBlock* const block = ThreadBlock::traced()) block->note_matrix_products(count);
}

ThreadBlock::ThreadBlock() = default;
ThreadBlock::~ThreadBlock() = default;

ThreadBlock& ThreadBlock::current() {
  check(current_block != nullptr, "a function of CUDA threads was called outside a kernel");
  return *current_block;
}

ThreadBlock* ThreadBlock::traced() {
  const bool inside = current_block != nullptr && current_block->launch_->traced &&
                      current_block->threads_[current_block->running_]->in_kernel;
  return inside ? current_block : nullptr;
}

const Launch& ThreadBlock::launch() const { return *launch_; }
Index3 ThreadBlock::index() const { return index_; }
Index3 ThreadBlock::thread() const { return threads_[running_]->index; }
unsigned ThreadBlock::lane() const { return static_cast<unsigned>(running_ % 32); }
uint32_t ThreadBlock::lanes() const {
  const size_t count = launch_->block.count() - running_ / 32 * 32;
  return count < 32 ? (uint32_t{1} << count) - 1 : 0xffffffffu;
}
void* ThreadBlock::dynamic_shared() { return shared_.data(); }

/// The window begins at a multiple of 1024, after which swizzles repeat.
uint32_t ThreadBlock::shared_address(const void* shared) const {
  const auto window = reinterpret_cast<uintptr_t>(shared_.data()) / 1024 * 1024;
  const uintptr_t offset = reinterpret_cast<uintptr_t>(shared) - window;
  check(offset < (size_t{256} << 10), "an address outside of dynamic shared memory");
  return static_cast<uint32_t>(offset);
}

char* ThreadBlock::at_shared_address(uint32_t address) const {
  return reinterpret_cast<char*>(reinterpret_cast<uintptr_t>(shared_.data()) / 1024 * 1024 + address);
}

void ThreadBlock::enter_kernel(bool inside) { threads_[running_]->in_kernel = inside; }

void ThreadBlock::note_matrix_products(uint64_t count) { trace_->multiply_matrices(count); }

void ThreadBlock::note_access(const void* address, size_t size, Access access, const void* pc,
                              size_t element) {
  const Fiber& fiber = threads_[running_]->fiber;
  if (!fiber.has_on_stack(address) && fails(trace_->access(address, size, running_, access, pc, element)))
    stop();
}

void ThreadBlock::note_wrong(const std::string& what) {
  fails(fmt::format("thread {} {}", to_string(thread()), what));
}

void ThreadBlock::stop() { threads_[running_]->fiber.yield(); }

/// Notes an error when something is wrong; the thread must then stop(). Nothing is thrown:
/// compilers take it that an access throws nothing.
bool ThreadBlock::fails(const std::string& wrong) {
  if (!wrong.empty()) error_ = std::make_exception_ptr(error_here(wrong));
  return !wrong.empty();
}

void ThreadBlock::prepare() {
  const size_t count = launch_->block.count();
  while (threads_.size() < count) threads_.push_back(std::make_unique<Thread>());
  for (size_t i = 0; i < count; ++i) {
    Thread& t = *threads_[i];
    t.index = index_of(i, launch_->block);
    t.alive = true;
    t.in_kernel = false;
    t.waiting_on = nullptr;
    t.fiber.start([this] {
      try {
        (*kernel_)();
      } catch (...) {
        if (!error_) error_ = std::current_exception();
      }
    });
  }
  shared_.assign(launch_->shared_bytes,
                 static_cast<char>(0xFF));  // a NaN: shared memory starts with anything
  groups_.clear();
  warpgroups_.clear();
  box_copies_.clear();
  unfenced_.clear();
  registers_.left = registers_.times_given = 0;
  registers_.of_thread.assign(count / 128, kRegisters / static_cast<unsigned>(count) / 8 * 8);
  error_ = nullptr;
  arrived_ = 0, alive_ = count, passes_ = 0;
  order_.resize(count);
  std::iota(order_.begin(), order_.end(), size_t{0});
  if (order_seed() != 0)
    random_.seed(order_seed() + index_.x + 1000003 * (index_.y + 1000003 * uint64_t{index_.z}));
  if (!launch_->traced) return;
  if (!trace_) trace_ = std::make_unique<Trace>();
  trace_->start_block(*launch_, shared_);
}

void ThreadBlock::shuffle_order() {
  if (order_seed() != 0) std::shuffle(order_.begin(), order_.end(), random_);
}

void ThreadBlock::run(const Launch& launch, Index3 index, const std::function<void()>& kernel) {
  launch_ = &launch, index_ = index, kernel_ = &kernel;
  prepare();
  current_block = this;
  while (alive_ > 0 && !error_) {
    bool progress = false;
    shuffle_order();
    run_until_blocked(progress);
    if (progress || error_ || alive_ == 0) continue;
    try {
      fail_blocked();
    } catch (...) {
      error_ = std::current_exception();
    }
  }
  current_block = nullptr;
  if (!error_ && !box_copies_.empty()) fails("it has ended before all tiles that it loads are there");
  if (!error_ && launch.traced) fails(trace_->finish_block());
  if (!error_) return;
  threads_.clear();  // some stopped half-way
  std::rethrow_exception(error_);
}

void ThreadBlock::run_until_blocked(bool& progress) {
  for (const size_t i : order_) {
    Thread& t = *threads_[i];
    if (!t.alive || (t.waiting_on != nullptr && *t.waiting_on == t.waiting_value)) continue;
    if (t.waiting_on != nullptr) passes_ = 0;
    t.waiting_on = nullptr;
    progress = true;
    running_ = i;
    if (!t.fiber.resume()) {
      t.alive = false;
      --alive_, passes_ = 0;
      if (launch_->traced) trace_->end(i);
    }
    if (error_) return;
  }
}

void ThreadBlock::wait(const uint64_t& generation, Place place) {
  Thread& t = *threads_[running_];
  t.waiting_on = &generation;
  t.waiting_value = generation;
  t.place = place;
  t.fiber.yield();
}

void ThreadBlock::pass_turn() {
  if (++passes_ > most_passes())
    fail_here(
        "its threads do nothing but spin on memory: what they wait for is written by none of them, or by a "
        "block that has its turn after this one");
  threads_[running_]->fiber.yield();
}

void ThreadBlock::wait_for_change(const uint64_t& word, Place place) {
  if (launch_->traced) trace_->advance(running_);
  wait(word, place);
}

void ThreadBlock::synchronize(Place place) {
  const size_t count = launch_->block.count();
  threads_[running_]->place = place;
  if (launch_->traced) trace_->advance(running_);
  if (++arrived_ < count) return wait(generation_, place);
  for (size_t i = 0; i < count; ++i)
    if (!(threads_[i]->place == place))
      fail_here(fmt::format("thread {} waits at the barrier {}, thread {} at {}",
                            to_string(threads_[i]->index), to_string(threads_[i]->place), to_string(thread()),
                            to_string(place)));
  arrived_ = 0;
  ++generation_;
  if (launch_->traced && fails(trace_->synchronize())) stop();
}

int ThreadBlock::synchronize_and_count(bool predicate, Place place) {
  int& votes = votes_[generation_ % 2];
  if (arrived_ == 0) votes = 0;
  votes += predicate ? 1 : 0;
  synchronize(place);
  return votes;
}

ThreadBlock::Group& ThreadBlock::group(uint32_t mask) {
  const size_t warp = running_ / 32;
  for (Group& g : groups_)
    if (g.warp == warp && g.mask == mask) return g;
  groups_.push_back({warp, mask});
  return groups_.back();
}

const uint64_t* ThreadBlock::exchange(uint32_t mask, uint64_t value, Place place, bool orders_memory) {
  const uint32_t bit = uint32_t{1} << lane();
  if ((mask & bit) == 0)
    fail_here(fmt::format("{}: lane {} calls it with the mask {:#010x}, which leaves it out",
                          to_string(place), lane(), mask));
  // Lanes after the end of the block do not exist, and the full mask means those that do.
  mask &= lanes();
  if (launch_->traced) trace_->advance(running_);
  Group& g = group(mask);
  if (g.arrived != 0 && !(g.place == place))
    fail_here(fmt::format("lanes of one warp meet at {} and at {}", to_string(g.place), to_string(place)));
  g.place = place;
  uint64_t* const values = g.values[g.generation % 2];
  values[lane()] = value;
  g.arrived |= bit;
  if (g.arrived == mask) {
    g.arrived = 0;
    ++g.generation;
    if (orders_memory && launch_->traced) trace_->synchronize(running_ / 32 * 32, mask);
  } else {
    wait(g.generation, place);
  }
  return values;
}

uint64_t ThreadBlock::shuffle(uint32_t mask, uint64_t value, unsigned source, Place place) {
  const uint64_t* const values = exchange(mask, value, place);
  if (((mask & lanes()) >> source & 1) == 0)
    fail_here(fmt::format("{}: lane {} reads from lane {}, which takes no part: the mask is {:#010x}",
                          to_string(place), lane(), source, mask & lanes()));
  return values[source];
}

const uint64_t* ThreadBlock::exchange_in_warpgroup(uint64_t value, Place place) {
  const size_t lane = running_ % 128, number = running_ / 128;
  if (number * 128 + 128 > launch_->block.count())
    fail_here(fmt::format("{}: there are no 128 threads of this warpgroup", to_string(place)));
  if (launch_->traced) trace_->advance(running_);
  while (warpgroups_.size() <= number) warpgroups_.emplace_back();
  Warpgroup& w = warpgroups_[number];
  if (w.arrived != 0 && !(w.place == place))
    fail_here(
        fmt::format("threads of one warpgroup meet at {} and at {}", to_string(w.place), to_string(place)));
  w.place = place;
  uint64_t* const values = w.values[w.generation % 2];
  values[lane] = value;
  if (++w.arrived == 128) {
    w.arrived = 0;
    ++w.generation;
  } else {
    wait(w.generation, place);
  }
  return values;
}

void ThreadBlock::fence_mbarriers() {
  std::erase_if(unfenced_, [&](const auto& barrier) { return barrier.second == running_; });
}

bool ThreadBlock::is_fenced(const uint64_t& state) const {
  return std::none_of(unfenced_.begin(), unfenced_.end(),
                      [&](const auto& barrier) { return barrier.first == &state; });
}

Error ThreadBlock::error_here(const std::string& what) const {
  return Error(fmt::format("kernel {}, block {}: {}", launch_->kernel, to_string(index_), what));
}

void ThreadBlock::fail_here(const std::string& what) const { throw error_here(what); }

std::string ThreadBlock::describe(size_t i) const {
  const Thread& t = *threads_[i];
  return t.alive ? fmt::format("thread {} waits at {}", to_string(t.index), to_string(t.place))
                 : fmt::format("thread {} has ended", to_string(t.index));
}

void ThreadBlock::fail_blocked() const {
  std::vector<std::string> kinds, shown;
  for (size_t i = 0; i < launch_->block.count(); ++i) {
    const Thread& t = *threads_[i];
    const std::string kind = t.alive ? to_string(t.place) : "ended";
    if (std::find(kinds.begin(), kinds.end(), kind) != kinds.end()) continue;
    kinds.push_back(kind);
    shown.push_back(describe(i));
  }
  fail_here(fmt::format(
      "no thread can go on: {}. A barrier wants every thread of the block, a warp function every lane of its "
      "mask, an mbarrier its arrivals and bytes, a warpgroup that takes registers those that others give",
      fmt::join(shown, ", ")));
}

bool report_untraced(const char* file) {
  static const bool said = [file] {
    fmt::print(
        stderr,
        "vitrine: the kernels of {} are compiled without VITRINE_TRACE_OPTIONS, so their races, bounds and reads of "
        "unwritten memory are not checked (docs/cuda.md, \"Watching a kernel's memory\")\n",
        file);
    return true;
  }();
  return !said;
}

void run_grid(const Launch& launch, const std::function<void()>& kernel) {
  if (!launch.traced) device_memory_may_be_written();
  if (counts_kernels()) add_counts(launch.kernel, {.launches = 1, .traced = launch.traced});
  parallel_for(0, static_cast<int64_t>(launch.grid.count()), 1, [&](int64_t begin, int64_t end) {
    thread_local ThreadBlock block;
    for (int64_t i = begin; i < end; ++i)
      block.run(launch, index_of(static_cast<uint64_t>(i), launch.grid), kernel);
  });
}

}  // namespace vitrine::emulator
