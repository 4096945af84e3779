// The emulated GPUs' streams. Work of the default streams runs at once, unless they are delayed.
// Work of other streams runs as late as CUDA allows, when something waits for it. So if a wait is
// missing, the result is wrong each time.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "cuda/emulator/errors.h"
#include "cuda/emulator/index.h"

namespace vitrine::emulator {

using Work = std::function<void()>;
class Stream;
class Event;

/// The GPU that this thread has selected: nullptr is its default stream.
inline thread_local int selected_device = 0;
/// Sets whether work of default streams also runs as late as possible.
void delay_default_streams(bool on);

Stream* create_stream();
void destroy_stream(Stream* stream);
/// Adds `work` to the stream.
void enqueue(Stream* stream, Work work);
/// Checks the launch and enqueues it. `kernel` runs once for every thread of the grid.
void launch_grid(const Launch& launch, Stream* stream, Work kernel);
/// Runs all work of a stream, or of every stream. Errors of kernels are reported here. A wait for a
/// stream that is captured is an error, and its capture then gives no graph.
cudaError_t synchronize(Stream* stream);
cudaError_t synchronize_streams();
/// Not ready while the stream has work. Each call runs one piece of work, so that repeated calls
/// finish the work.
cudaError_t query_stream(Stream* stream);

Event* create_event();
void destroy_event(Event* event);
void record_event(Event* event, Stream* stream);
/// `stream` waits for the last recording of the event. Either both belong to the same capture, or
/// neither is captured. Only one stream is captured at a time; in CUDA, other streams can join a
/// capture.
cudaError_t wait_for_event(Stream* stream, Event* event);
cudaError_t synchronize_event(Event* event);
/// Not ready until the event is reached. Each call runs one piece of work of its stream, so that
/// repeated calls reach the event.
cudaError_t query_event(Event* event);
/// Seconds from one event to another; both must have been reached.
double seconds_between(const Event* first, const Event* second);

/// Work that is added to a stream between begin and end runs only when the graph is launched.
/// Returns nullptr and an error if something has made the capture invalid.
using Graph = std::vector<Work>;
cudaError_t begin_capture(Stream* stream);
cudaError_t end_capture(Stream* stream, Graph** graph);
bool any_capture();
Graph* copy_graph(const Graph* graph);
void launch_graph(const Graph* graph, Stream* stream);
void destroy_graph(Graph* graph);

}  // namespace vitrine::emulator
