// The emulated GPU's streams. Work of the default stream runs at once. That of other streams runs as late as CUDA allows, when
// somebody waits for it; so a wait that is missing shows in the result, each time.
#pragma once

#include <cstdint>
#include <functional>

namespace vitrine::emulator {

using Work = std::function<void()>;
class Stream;
class Event;

Stream* create_stream();
void destroy_stream(Stream* stream);
/// Runs `work` when the stream comes to it; nullptr is the default stream.
void enqueue(Stream* stream, Work work);
/// Runs all that a stream, or every stream, was given. What is wrong with a kernel is told here.
void synchronize(Stream* stream);
void synchronize_streams();

Event* create_event();
void destroy_event(Event* event);
void record_event(Event* event, Stream* stream);
/// `stream` goes on when the event, as last recorded, has come.
void wait_for_event(Stream* stream, Event* event);
void synchronize_event(Event* event);
/// True if the event has come. If not, its stream takes a step, so that whoever asks again and again gets there.
bool query_event(Event* event);
/// Seconds from one event to another; both have come.
double seconds_between(const Event* first, const Event* second);

}  // namespace vitrine::emulator
