// Time and memory by op and by module.
//
//   Profiler profiler;
//   … a few training steps …
//   profiler.print(std::cout);
//   profiler.write_chrome_trace("trace.json");      // open in chrome://tracing or Perfetto
#pragma once

#include <cstdint>
#include <iosfwd>
#include <mutex>
#include <string>
#include <vector>

namespace vitrine {

/// Collects events while it lives; one at a time.
class Profiler {
 public:
  Profiler();
  ~Profiler();
  Profiler(const Profiler&) = delete;
  Profiler& operator=(const Profiler&) = delete;

  struct Event {
    const char* name;
    const char* category;       ///< "kernel" or "backward"
    const std::string* module;  ///< interned path
    int64_t start, end;         ///< nanoseconds
    uint64_t thread;
    size_t bytes;  ///< allocated for it
  };
  struct Row {
    std::string name;
    int64_t calls = 0;
    double milliseconds = 0;
    size_t bytes = 0;  ///< allocated
  };

  std::vector<Event> events() const;
  /// Kernels by time, longest first.
  std::vector<Row> by_op() const;
  /// Kernels by the module that ran them.
  std::vector<Row> by_module() const;
  void print(std::ostream& out) const;
  void write_chrome_trace(const std::string& path) const;

  static bool active();
  static void note(const char* name, const char* category, int64_t start, int64_t end, size_t bytes = 0);

 private:
  mutable std::mutex mutex_;
  std::vector<Event> events_;
};

}  // namespace vitrine
