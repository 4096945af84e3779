#include "core/profiler.h"

#include <algorithm>
#include <atomic>
#include <functional>
#include <map>
#include <ostream>
#include <string>
#include <string_view>
#include <thread>

#include <fmt/ostream.h>
#include <nlohmann/json.hpp>

#include "core/error.h"
#include "core/files/file.h"
#include "core/memory/allocator.h"
#include "core/record.h"
#include "core/state.h"

namespace vitrine {
namespace {

std::atomic<Profiler*> current{nullptr};

std::vector<Profiler::Row> sum_by(const std::vector<Profiler::Event>& events,
                                  const std::function<std::string(const Profiler::Event&)>& key) {
  std::map<std::string, Profiler::Row> rows;
  for (const auto& event : events) {
    const std::string_view category = event.category;
    if (category == "backward") continue;
    auto& row = rows[key(event)];
    row.name = key(event);
    row.calls += category == "kernel" ? 1 : 0;
    row.flops += event.flops;
    row.bytes += event.bytes;
    row.milliseconds += 1e-6 * static_cast<double>(event.end - event.start);
  }
  std::vector<Profiler::Row> result;
  for (auto& [name, row] : rows) result.push_back(row);
  std::stable_sort(result.begin(), result.end(),
                   [](const auto& x, const auto& y) { return x.milliseconds > y.milliseconds; });
  return result;
}

}  // namespace

Profiler::Profiler() {
  Profiler* none = nullptr;
  check(current.compare_exchange_strong(none, this), "Profiler: another one is already collecting");
  memory::track_ops(true);
}

Profiler::~Profiler() {
  memory::track_ops(false);
  current = nullptr;
}

bool Profiler::active() { return current.load(std::memory_order_relaxed) != nullptr; }

void Profiler::note(const char* name, const char* category, int64_t start, int64_t end, size_t bytes) {
  if (active()) add({name, category, nullptr, start, end, 0, bytes});
}

void Profiler::note_flops(const char* op, double flops) {
  if (active())
    add({op, "flops", nullptr, detail::now_nanoseconds(), detail::now_nanoseconds(), 0, 0, flops});
}

void Profiler::add(Event event) {
  Profiler* profiler = current.load();
  if (!profiler) return;
  event.module = &ModuleScope::current();
  event.thread = std::hash<std::thread::id>{}(std::this_thread::get_id()) % 1'000'000;
  const std::lock_guard lock(profiler->mutex_);
  profiler->events_.push_back(event);
}

std::vector<Profiler::Event> Profiler::events() const {
  const std::lock_guard lock(mutex_);
  return events_;
}

std::vector<Profiler::Row> Profiler::by_op() const {
  return sum_by(events(), [](const Event& event) { return std::string(event.name); });
}

std::vector<Profiler::Row> Profiler::by_module() const {
  return sum_by(events(),
                [](const Event& event) { return event.module->empty() ? "(none)" : *event.module; });
}

void Profiler::print(std::ostream& out) const {
  const auto table = [&](const char* title, const std::vector<Row>& rows) {
    fmt::print(out, "{:<40} {:>8} {:>12} {:>12} {:>12}\n", title, "calls", "ms", "MiB", "GFLOP");
    for (const Row& row : rows)
      fmt::print(out, "{:<40} {:>8} {:>12.3f} {:>12.2f} {:>12.4f}\n", row.name, row.calls, row.milliseconds,
                 static_cast<double>(row.bytes) / (1 << 20), 1e-9 * row.flops);
  };
  table("op", by_op());
  out << "\n";
  table("module", by_module());
}

void Profiler::write_chrome_trace(const std::string& path) const {
  nlohmann::json events = nlohmann::json::array();
  for (const Event& e : this->events()) {
    if (std::string_view(e.category) == "flops") continue;
    events.push_back({{"name", e.name},
                      {"cat", e.category},
                      {"ph", "X"},
                      {"ts", 1e-3 * static_cast<double>(e.start)},
                      {"dur", 1e-3 * static_cast<double>(e.end - e.start)},
                      {"pid", 1},
                      {"tid", e.thread},
                      {"args", {{"module", *e.module}, {"bytes", e.bytes}}}});
  }
  const std::string text = nlohmann::json{{"traceEvents", events}, {"displayTimeUnit", "ms"}}.dump();
  const std::string_view parts[] = {text};
  write_file("write_chrome_trace", path, parts);
}

}  // namespace vitrine
