// Streams and events: work in order, at once (eager) or not before something waits for it (lazy).
//
// Lazy is the strictest order a real driver may choose: a missing wait shows every time.
#include <algorithm>
#include <chrono>

#include "state.h"

namespace emulated {

double now_s() {
    return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

Stream* find_stream(Context& context, CUstream handle) {
    bool is_default = reinterpret_cast<uintptr_t>(handle) <= 2;  // null, legacy and per-thread
    return is_default ? &context.default_stream : emulator().streams.find(handle);
}

CUresult run_stream(Stream& stream, uint64_t until) {
    Context& context = *stream.context;
    while (!stream.queue.empty() && stream.num_finished < until) {
        if (!context.fault && is_hung(context)) {
            stream.is_held = true;
            return NEVER_ENDS;
        }
        Operation operation = std::move(stream.queue.front());
        stream.queue.pop_front();
        stream.num_finished++;
        // After a fault nothing runs any more, but counts as finished, so that nobody waits for it.
        CUresult error = context.fault ? context.fault : operation();
        if (error == NEVER_ENDS) {
            stream.queue.push_front(std::move(operation));
            stream.num_finished--;
            stream.is_held = true;
            return NEVER_ENDS;
        }
        if (is_sticky(error)) context.fault = error;
        if (error && !context.fault) return error;
    }
    return context.fault;
}

static std::vector<Stream*> streams_of(const Context& context) {
    std::vector<Stream*> found;
    for (CUstream handle : context.streams)
        if (Stream* stream = emulator().streams.find(handle)) found.push_back(stream);
    return found;
}

CUresult run_context(Context& context, bool blocking_streams_only) {
    CUresult first = run_stream(context.default_stream);
    for (Stream* stream : streams_of(context)) {
        if (blocking_streams_only && stream->flags & CU_STREAM_NON_BLOCKING) continue;
        CUresult error = run_stream(*stream);
        if (!first) first = error;
    }
    return first;
}

CUresult submit(Context& context, Stream& stream, Operation operation) {
    if (stream.capture) {
        stream.capture->operations.push_back(std::move(operation));
        return CUDA_SUCCESS;
    }
    // The default stream and the others (but for non-blocking ones) wait for each other.
    CUresult error = CUDA_SUCCESS;
    if (&stream == &context.default_stream)
        error = run_context(context, true);
    else if (!(stream.flags & CU_STREAM_NON_BLOCKING))
        error = run_stream(context.default_stream);
    if (error && error != NEVER_ENDS) return error;
    stream.queue.push_back(std::move(operation));
    stream.num_submitted++;
    if (emulator().settings.is_lazy) return CUDA_SUCCESS;
    error = run_stream(stream);
    return error == NEVER_ENDS ? CUDA_SUCCESS : error;  // who gives work to a die does not wait for it
}

static CUresult run_event(const Event& event) {
    Context* context = find_context(event.context);
    Stream* stream = context ? find_stream(*context, event.stream) : nullptr;
    return !event.recorded || event.passed || !stream ? CUDA_SUCCESS : run_stream(*stream, event.target);
}

}  // namespace emulated

using namespace emulated;

DRIVER_API cuStreamCreate(CUstream* out, unsigned flags) {
    TURN_WITH_CONTEXT(turn);
    *out = emulator().streams.add<CUstream>(std::make_unique<Stream>(turn.context, flags));
    turn.context->streams.push_back(*out);
    return CUDA_SUCCESS;
}

DRIVER_API cuStreamDestroy(CUstream handle) {
    Turn turn;
    Stream* stream = emulator().streams.find(handle);
    if (!stream) return emulator().streams.was_released(handle) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
    if (run_stream(*stream) == NEVER_ENDS) return stuck("cuStreamDestroy");
    auto& all = stream->context->streams;
    all.erase(std::remove(all.begin(), all.end(), handle), all.end());
    emulator().streams.remove(handle);
    return CUDA_SUCCESS;
}

DRIVER_API cuStreamSynchronize(CUstream handle) {
    TURN_WITH_CONTEXT(turn);
    Stream* stream = find_stream(*turn.context, handle);
    if (!stream) return CUDA_ERROR_INVALID_HANDLE;
    if (stream->capture) return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
    return waited("cuStreamSynchronize", run_stream(*stream));
}

// A question is a moment passing: each lets one more operation of a lazy stream run.
static CUresult after_a_moment(Stream& stream) {
    CUresult error = run_stream(stream, stream.num_finished + 1);
    return error && error != NEVER_ENDS ? error : CUDA_ERROR_NOT_READY;
}

DRIVER_API cuStreamQuery(CUstream handle) {
    TURN_WITH_CONTEXT(turn);
    Stream* stream = find_stream(*turn.context, handle);
    if (!stream) return CUDA_ERROR_INVALID_HANDLE;
    if (stream->queue.empty()) return CUDA_SUCCESS;
    return after_a_moment(*stream);
}

DRIVER_API cuStreamWaitEvent(CUstream handle, CUevent event_handle, unsigned) {
    TURN_WITH_CONTEXT(turn);
    Stream* stream = find_stream(*turn.context, handle);
    Event* event = emulator().events.find(event_handle);
    if (!stream || !event) return CUDA_ERROR_INVALID_HANDLE;
    if (!event->recorded) return CUDA_SUCCESS;
    Event as_recorded = *event;  // recording it again later does not move this wait
    return submit(*turn.context, *stream, [as_recorded] { return run_event(as_recorded); });
}

DRIVER_API cuEventCreate(CUevent* out, unsigned) {
    TURN_WITH_CONTEXT(turn);
    auto event = std::make_unique<Event>();
    event->context = turn.context->handle;
    *out = emulator().events.add<CUevent>(std::move(event));
    return CUDA_SUCCESS;
}

DRIVER_API cuEventDestroy(CUevent handle) {
    Turn turn;
    if (!emulator().events.find(handle))
        return emulator().events.was_released(handle) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
    Context* context = find_context(emulator().events.find(handle)->context);
    if (context && is_hung(*context)) return stuck("cuEventDestroy");
    emulator().events.remove(handle);
    return CUDA_SUCCESS;
}

DRIVER_API cuEventRecord(CUevent handle, CUstream stream_handle) {
    TURN_WITH_CONTEXT(turn);
    Event* event = emulator().events.find(handle);
    Stream* stream = find_stream(*turn.context, stream_handle);
    if (!event || !stream) return CUDA_ERROR_INVALID_HANDLE;
    if (event->context != stream->context->handle)
        return explain(CUDA_ERROR_INVALID_HANDLE, "an event is recorded in a stream of another context");
    event->stream = stream_handle;
    event->recorded = true;
    event->passed = false;
    uint64_t target = event->target = stream->num_submitted + 1;
    return submit(*turn.context, *stream, [handle, target] {
        Event* passed = emulator().events.find(handle);
        if (passed && passed->target == target) {
            passed->passed = true;
            passed->passed_s = now_s();
        }
        return CUDA_SUCCESS;
    });
}

DRIVER_API cuEventSynchronize(CUevent handle) {
    Turn turn;
    Event* event = emulator().events.find(handle);
    return event ? waited("cuEventSynchronize", run_event(*event)) : CUDA_ERROR_INVALID_HANDLE;
}

DRIVER_API cuEventQuery(CUevent handle) {
    Turn turn;
    Event* event = emulator().events.find(handle);
    Context* context = event ? find_context(event->context) : nullptr;
    if (!context) return CUDA_ERROR_INVALID_HANDLE;
    if (context->fault) return context->fault;
    if (!event->recorded || event->passed) return CUDA_SUCCESS;
    Stream* stream = find_stream(*context, event->stream);
    return stream ? after_a_moment(*stream) : CUDA_SUCCESS;
}

static CUresult elapsed(float* milliseconds, CUevent start_handle, CUevent end_handle) {
    Turn turn;
    Event *start = emulator().events.find(start_handle), *end = emulator().events.find(end_handle);
    if (!start || !end || !start->recorded || !end->recorded) return CUDA_ERROR_INVALID_HANDLE;
    if (!start->passed || !end->passed) return CUDA_ERROR_NOT_READY;
    *milliseconds = float((end->passed_s - start->passed_s) * 1e3);
    return CUDA_SUCCESS;
}
DRIVER_API cuEventElapsedTime(float* milliseconds, CUevent start, CUevent end) {
    return elapsed(milliseconds, start, end);
}
DRIVER_API cuEventElapsedTime_v2(float* milliseconds, CUevent start, CUevent end) {
    return elapsed(milliseconds, start, end);
}
