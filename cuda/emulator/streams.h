// The emulated GPUs' streams. Work of the default streams runs at once, unless they are delayed.
// That of other streams runs as late as CUDA allows, when somebody waits for it; so a wait that is
// missing shows in the result, each time.
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
/// Default streams, too, run as late as they may from now on, or no longer.
void delay_default_streams(bool on);

Stream* create_stream();
void destroy_stream(Stream* stream);
/// Runs `work` when the stream comes to it.
void enqueue(Stream* stream, Work work);
/// Checks the launch and enqueues it. `kernel` runs once for every thread of the grid.
void launch_grid(const Launch& launch, Stream* stream, Work kernel);
/// Runs all that a stream, or every stream, was given. What is wrong with a kernel is told here. A
/// stream that is captured can neither be waited for nor, from then on, be made a graph.
cudaError_t synchronize(Stream* stream);
cudaError_t synchronize_streams();
/// Not ready while the stream has work; but it takes a step, so that whoever asks again and again
/// gets there.
cudaError_t query_stream(Stream* stream);

Event* create_event();
void destroy_event(Event* event);
void record_event(Event* event, Stream* stream);
/// `stream` goes on when the event, as last recorded, has come. Both are captured together or
/// neither; and one stream alone is captured at a time, where CUDA lets others join it.
cudaError_t wait_for_event(Stream* stream, Event* event);
cudaError_t synchronize_event(Event* event);
/// Not ready until the event has come; but its stream takes a step, so that whoever asks again and
/// again gets there.
cudaError_t query_event(Event* event);
/// Seconds from one event to another; both have come.
double seconds_between(const Event* first, const Event* second);

/// What a stream is given between the two is done by none but launches of the graph; nullptr and an
/// error if something has spoiled it.
using Graph = std::vector<Work>;
cudaError_t begin_capture(Stream* stream);
cudaError_t end_capture(Stream* stream, Graph** graph);
bool any_capture();
Graph* copy_graph(const Graph* graph);
void launch_graph(const Graph* graph, Stream* stream);
void destroy_graph(Graph* graph);

}  // namespace vitrine::emulator
