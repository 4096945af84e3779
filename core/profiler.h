// Time and memory by op and by module.
//
//   Profiler profiler;
//   … a few training steps …
//   profiler.print(std::cout);
//   profiler.write_chrome_trace("trace.json");      // open in chrome://tracing or Perfetto
//
// While a profiler lives, each kernel on a GPU is waited for, so that its time is its own and not
// that of its launch; a program is slower then. A graph's kernels are not seen.
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

  /// One run of a kernel, or of a backward with all its kernels.
  struct Event {
    const char* name;
    const char* category;       ///< "kernel" or "backward"
    const std::string* module;  ///< interned path
    int64_t start, end;         ///< nanoseconds
    uint64_t thread;
    size_t bytes;  ///< allocated for it
  };
  /// A sum over events.
  struct Row {
    std::string name;  ///< of the op, or the module's path
    int64_t calls = 0;
    double milliseconds = 0;
    size_t bytes = 0;  ///< allocated
  };

  std::vector<Event> events() const;  ///< so far, in order of their ends
  /// Kernels by time, longest first.
  std::vector<Row> by_op() const;
  /// Kernels by the module that ran them, or whose gradients they compute.
  std::vector<Row> by_module() const;
  void print(std::ostream& out) const;  ///< both tables
  /// JSON in Chrome's trace event format; a file that cannot be written is an error.
  void write_chrome_trace(const std::string& path) const;

  static bool active();  ///< whether one lives, on any thread
  /// An event that has ended, for the one that lives.
  static void note(const char* name, const char* category, int64_t start, int64_t end, size_t bytes = 0);

 private:
  mutable std::mutex mutex_;
  std::vector<Event> events_;
};

}  // namespace vitrine
