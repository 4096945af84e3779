// Time, memory and floating-point operations by op and by module.
//
//   Profiler profiler;
//   … a few training steps …
//   profiler.print(std::cout);
//   profiler.write_chrome_trace("trace.json");      // open in chrome://tracing or Perfetto
//
// While a profiler lives, the CPU waits for each GPU kernel, so that the time is the kernel's and
// not the launch's. The program is then slower. The profiler does not see the kernels of a graph.
#pragma once

#include <cstdint>
#include <iosfwd>
#include <mutex>
#include <string>
#include <vector>

namespace vitrine {

/// Collects events while it lives. Only one profiler may live at a time.
class Profiler {
 public:
  Profiler();
  ~Profiler();
  Profiler(const Profiler&) = delete;
  Profiler& operator=(const Profiler&) = delete;

  /// One run of a kernel, or of a backward including all its kernels, or a count of operations.
  struct Event {
    const char* name;
    const char* category;       ///< "kernel", "backward" or "flops"
    const std::string* module;  ///< the module's path, interned
    int64_t start, end;         ///< nanoseconds
    uint64_t thread;
    size_t bytes;  ///< allocated for this run
    double flops = 0;
  };
  /// A sum over events.
  struct Row {
    std::string name;  ///< the op's name, or the module's path
    int64_t calls = 0;
    double milliseconds = 0;
    size_t bytes = 0;  ///< allocated
    double flops = 0;  ///< floating-point operations (core/flops.h)
  };

  std::vector<Event> events() const;  ///< all events so far, ordered by end time
  /// Total time of kernels by op, longest first.
  std::vector<Row> by_op() const;
  /// Total time of kernels by the module that ran them, or whose gradients they compute.
  std::vector<Row> by_module() const;
  void print(std::ostream& out) const;  ///< both tables
  /// JSON in Chrome's trace event format; a file that cannot be written is an error.
  void write_chrome_trace(const std::string& path) const;

  static bool active();  ///< whether a profiler lives, on any thread
  /// Adds an event that has ended to the profiler that lives.
  static void note(const char* name, const char* category, int64_t start, int64_t end, size_t bytes = 0);
  /// Adds to the operations of `op`; see count_flops.
  static void note_flops(const char* op, double flops);

 private:
  static void add(Event event);

  mutable std::mutex mutex_;
  std::vector<Event> events_;
};

}  // namespace vitrine
