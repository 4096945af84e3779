#include "core/gpu/step_graph.h"

#include <set>
#include <utility>
#include <vector>

#include "core/gpu/capture.h"
#include "core/gpu/stream.h"
#include "core/kernel_macros.h"
#include "core/memory/allocator.h"
#include "core/random.h"

namespace vitrine {
namespace {

/// Returns a stream whose pool has no memory in use: the graph's memory is then the graph's alone.
/// A stream that was used before may still have live tensors.
Stream empty_stream(Device device) {
  std::vector<Stream> others;  // go back when one is found
  for (;;) {
    Stream stream(device);
    if (memory::is_empty(stream.handle(), device)) return stream;
    others.push_back(std::move(stream));
  }
}

}  // namespace

/// A graph, and the data noted while it is captured.
struct detail::Capture {
  /// Numbers that the CPU writes before each replay. Their memory is not from the graph's pool,
  /// because the graph's kernels share that memory: a kernel that runs before the numbers were
  /// requested could overwrite them with a temporary.
  struct Page {
    explicit Page(Device device) : on_device(cuda::take_memory(sizeof(cuda::LivePage), device)) {
      check(on_device != nullptr, "graph: there is no memory for its numbers on {}", to_string(device));
    }
    ~Page() { cuda::give_memory(on_device); }
    Page(const Page&) = delete;
    Page& operator=(const Page&) = delete;

    cuda::LivePage numbers;
    void* on_device;
  };

  explicit Capture(Device device) : stream(empty_stream(device)), last(device) {
    memory::hold(stream.handle(), device);
  }
  ~Capture();
  Capture(const Capture&) = delete;
  Capture& operator=(const Capture&) = delete;

  void capture(const std::function<void()>& f);
  const void* live_memory(size_t bytes, std::function<void(void*)> compute);
  const Draw* moved(Generator& generator);

  Stream stream;  ///< owns the graph's memory; idle once the last replay is done
  Event last;     ///< the end of the last replay
  void* graph = nullptr;
  std::vector<std::function<void()>> before;  ///< called before each replay
  std::vector<std::unique_ptr<Page>> pages;
  size_t used = sizeof(cuda::LivePage);              ///< used bytes of the last page
  std::set<std::shared_ptr<Storage>> kept, written;  ///< memory from outside the graph's pool
  const Draw* generator = nullptr;
  uint64_t first_draw = 0, drawn = 0;
};

namespace {

thread_local detail::Capture* current = nullptr;

}  // namespace

// Capturing ---------------------------------------------------------------------------------------

void detail::Capture::capture(const std::function<void()>& f) {
  /// Even if f throws, the generator's state is restored afterwards and nothing is captured.
  struct Scope {
    explicit Scope(Capture& captured) : stream(captured.stream), before(default_generator()) {
      captured.first_draw = before.offset();
      cuda::begin_capture(captured.stream.handle());
      current = &captured;
    }
    ~Scope() {
      current->drawn = default_generator().offset() - before.offset();
      default_generator() = before;
      if (current->graph == nullptr) cuda::abandon_capture(current->stream.handle());
      current = nullptr;
    }
    const StreamScope stream;
    const Generator before;
  };
  const Scope scope(*this);
  f();
  graph = cuda::end_capture(stream.handle());
}

detail::Capture::~Capture() {
  if (graph != nullptr) cuda::destroy_graph(graph, stream.handle());
  pages.clear();
  memory::let_go(stream.handle(), stream.device());
}

const void* detail::Capture::live_memory(size_t bytes, std::function<void(void*)> compute) {
  const size_t size = (bytes + 15) / 16 * 16;
  check(size <= sizeof(cuda::LivePage), "live: {} bytes are wanted, there is room for {}", bytes,
        sizeof(cuda::LivePage));
  if (used + size > sizeof(cuda::LivePage)) {
    pages.push_back(std::make_unique<Page>(stream.device()));
    used = 0;
  }
  Page& page = *pages.back();
  before.push_back([compute = std::move(compute), to = page.numbers.bytes + used] { compute(to); });
  const void* const result = static_cast<char*>(page.on_device) + used;
  used += size;
  return result;
}

const Draw* detail::Capture::moved(Generator& g) {
  check(&g == &default_generator(),
        "random: a graph is being captured, and draws from the thread's own generator alone");
  if (generator == nullptr)
    generator = static_cast<const Draw*>(live_memory(sizeof(Draw), [this](void* to) {
      Generator& now = default_generator();
      *static_cast<Draw*>(to) = {now.seed(), now.offset() - first_draw};
      now.set(now.seed(), now.offset() + drawn);
    }));
  return generator;
}

namespace detail {

bool capturing() { return current != nullptr; }

void refuse_in_capture(std::string_view op) {
  check(current == nullptr,
        "{}: a graph is being captured: its kernels are noted and have not run, so the CPU can neither wait "
        "for results nor send numbers; do this before the capture, or after replay()",
        op);
}

const void* live_memory(size_t bytes, std::function<void(void*)> compute) {
  return current->live_memory(bytes, std::move(compute));
}

const Draw* moved(Generator& generator) { return current == nullptr ? nullptr : current->moved(generator); }

void note_use(const Tensor& x) {
  const Device device = current->stream.device();
  check(x.device().is_cpu() || x.device() == device, "a graph of {} is being captured, and a kernel wants {}",
        to_string(device), describe(x));
  if (!memory::is_of(current->stream.handle(), x.storage().data(), device))
    current->kept.insert(x.shared_storage());
}

void note_write(const Tensor& x) {
  if (current->kept.contains(x.shared_storage())) current->written.insert(x.shared_storage());
}

}  // namespace detail

void each_time(std::function<void()> f) {
  if (current == nullptr) return f();
  current->before.push_back(std::move(f));
}

// Replaying ---------------------------------------------------------------------------------------

StepGraph::StepGraph(Device device, std::function<void()> f) {
  detail::refuse_in_capture("StepGraph");
  if (device.is_cpu()) {
    function_ = std::move(f);
    return;
  }
  captured_ = std::make_unique<detail::Capture>(device);
  captured_->capture(f);
}

StepGraph::~StepGraph() = default;
StepGraph::StepGraph(StepGraph&&) noexcept = default;
StepGraph& StepGraph::operator=(StepGraph&&) noexcept = default;

void StepGraph::replay() {
  if (function_) return function_();
  detail::refuse_in_capture("replay");
  check(captured_ != nullptr, "replay: the graph has been moved from");
  detail::Capture& c = *captured_;
  const detail::KernelScope scope("replay");
  const Stream stream = Stream::current(c.stream.device());
  for (const auto& f : c.before) f();
  stream.wait_for(c.last);  // a replay on another stream may still read the numbers
  for (const auto& page : c.pages) cuda::write_page(page->on_device, page->numbers);
  cuda::launch_graph(c.graph, stream.handle());
  c.last.record();
  c.stream.wait_for(c.last);
  for (const auto& storage : c.written) storage->written_by("replay");
}

}  // namespace vitrine
