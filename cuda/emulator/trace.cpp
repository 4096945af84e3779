#include "cuda/emulator/trace.h"

#include <fmt/format.h>

#include <algorithm>

namespace vitrine::emulator {
namespace {

const char* verb(Access access) {
  return is_atomic(access) ? "atomically changes" : access == Access::write ? "writes" : "reads";
}

std::string at_line(const void* pc) {
  const std::string line = source_line(pc);
  return line.empty() ? "" : " at " + line;
}

/// Whether a read of such elements meets one that was never written. Without (0) eight bytes and
/// more may be those of a struct with padding, so that in every eight of them something must have
/// been written.
template <class IsWritten>
bool reads_unwritten(size_t size, size_t element, IsWritten&& is_written) {
  const size_t part = element != 0 ? element : size < 8 ? 1 : 8;
  for (size_t i = 0; i < size; i += part) {
    bool any = false;
    for (size_t j = i; j < std::min(i + part, size); ++j) any = any || is_written(j);
    if (!any) return true;
  }
  return false;
}

}  // namespace

void Trace::start_block(const Launch& launch, std::span<char> dynamic_shared) {
  launch_ = &launch;
  if (regions_.empty()) {
    regions_.push_back({});
    for (StaticShared& s : static_shared()) regions_.push_back({s.data, s.size, std::move(s), {}});
  }
  regions_[0].data = dynamic_shared.data();
  regions_[0].size = dynamic_shared.size();
  races_.start_block(launch.block.count());
  recent_.clear();
  unwritten_.clear();
  counting_ = counts_kernels();
  if (counting_) warps_.start_block(launch.block.count());
}

std::string Trace::access(const void* address, size_t size, size_t thread, Access access, const void* pc,
                          size_t element) {
  const Touch touch{pc, 0, static_cast<uint16_t>(thread), access};
  const auto region = std::find_if(regions_.begin(), regions_.end(), [&](const Region& r) {
    return static_cast<size_t>(static_cast<const char*>(address) - r.data) < r.size;
  });
  const bool shared = region != regions_.end();
  std::string wrong = shared ? access_shared(*region, address, size, touch, element)
                             : access_global(address, size, touch, element);
  if (is_atomic(access)) races_.synchronize_through(address, thread);
  if (counting_ && wrong.empty()) warps_.access(thread, pc, address, size, access, shared);
  return wrong;
}

std::string Trace::access_shared(Region& region, const void* address, size_t size, Touch touch,
                                 size_t element) {
  touch.clock = races_.clock(touch.thread);
  const auto offset = static_cast<size_t>(static_cast<const char*>(address) - region.data);
  size_t end = region.variables.has_symbols ? 0 : region.size;
  if (const SharedVariable* v = region.variables.find(offset)) end = v->offset + v->size;
  if (offset + size > end)
    return fmt::format("{}, which is not all inside: {}", describe(touch, size), name_shared(region, offset));
  if (const Touch* const earlier = races_.touch(region.history, offset, size, touch))
    return fmt::format(
        "race on {}: {}, before it thread {} {}{}, and nothing orders the two (__syncthreads or "
        "__syncwarp)",
        name_shared(region, offset), describe(touch, size),
        to_string(index_of(earlier->thread, launch_->block)),
        is_atomic(earlier->access)  ? "atomically changed it"
        : is_write(earlier->access) ? "wrote it"
                                    : "read it",
        at_line(earlier->pc));
  const auto is_written = [&](size_t i) { return races_.is_written(region.history, offset + i); };
  if (touch.access != Access::write && unwritten_.empty() && reads_unwritten(size, element, is_written))
    unwritten_ = fmt::format("{} that no thread of the block has written: {}", describe(touch, size),
                             name_shared(region, offset));
  if (is_write(touch.access)) races_.write(region.history, offset, size);
  return "";
}

std::string Trace::access_global(const void* address, size_t size, const Touch& touch, size_t element) {
  Allocation* const a = find(address);
  if (a == nullptr) {
    if (is_program_data(address, size)) return "";
    const Region& dynamic = regions_[0];
    const auto after =
        static_cast<const char*>(address) - dynamic.data - static_cast<ptrdiff_t>(dynamic.size);
    if (dynamic.size != 0 && after >= 0 && after < 4096)
      return fmt::format("{}, {} bytes after the {} bytes of dynamic shared memory", describe(touch, size),
                         after, dynamic.size);
    return fmt::format("{}, {}", describe(touch, size), describe_nearest_allocation(address));
  }
  const auto offset = static_cast<size_t>(a->at(address));
  if (offset + size > a->size())
    return fmt::format("{} at byte {} of an allocation of {} bytes, which ends before", describe(touch, size),
                       offset, a->size());
  if (touch.access != Access::write &&
      reads_unwritten(size, element, [&](size_t i) { return a->is_written(offset + i); }))
    return fmt::format("{} that nothing has written: byte {} of an allocation of {} bytes",
                       describe(touch, size), offset, a->size());
  if (is_write(touch.access)) a->write(offset, size);
  return "";
}

Allocation* Trace::find(const void* address) {
  const auto known = std::find_if(recent_.begin(), recent_.end(), [&](auto& a) { return a->holds(address); });
  if (known == recent_.end()) {
    auto found = find_allocation(address);
    if (!found) return nullptr;
    recent_.insert(recent_.begin(), std::move(found));
  } else {
    std::swap(*known, recent_.front());
  }
  return recent_.front().get();
}

std::string Trace::describe(const Touch& touch, size_t size) const {
  return fmt::format("thread {} {} {} bytes{}", to_string(index_of(touch.thread, launch_->block)),
                     verb(touch.access), size, at_line(touch.pc));
}

std::string Trace::name_shared(const Region& region, size_t offset) const {
  const SharedVariable* const v = region.variables.find(offset);
  if (v != nullptr) return fmt::format("{} + {} of {} bytes", v->name, offset - v->offset, v->size);
  return fmt::format("{} shared memory + {} of {} bytes", &region == regions_.data() ? "dynamic" : "static",
                     offset, region.size);
}

void Trace::advance(size_t thread) {
  if (counting_) warps_.advance(thread);
}

void Trace::end(size_t thread) {
  if (counting_) warps_.end(thread);
}

std::string Trace::synchronize() {
  races_.synchronize();
  return unwritten_;
}

std::string Trace::finish_block() {
  if (counting_) add_counts(launch_->kernel, warps_.counts());
  return unwritten_;
}

}  // namespace vitrine::emulator
