// Graphs: the work of one stream, recorded once and launched as often as wanted.
// A capture is of one stream; work that others would join in is out of scope.
#include "state.h"

using namespace emulated;

static CUresult end_capture(CUstream handle, CUgraph* out) {
    TURN_WITH_CONTEXT(turn);
    Stream* stream = find_stream(*turn.context, handle);
    if (!stream || !stream->capture) return CUDA_ERROR_INVALID_VALUE;
    *out = emulator().graphs.add<CUgraph>(std::move(stream->capture));
    return CUDA_SUCCESS;
}

DRIVER_API cuStreamBeginCapture(CUstream handle, CUstreamCaptureMode) {
    TURN_WITH_CONTEXT(turn);
    Stream* stream = emulator().streams.find(handle);
    if (!stream || stream->capture)
        return explain(CUDA_ERROR_INVALID_VALUE,
                       "a capture wants a stream of its own that is not captured yet");
    stream->capture = std::make_unique<Graph>();
    return CUDA_SUCCESS;
}

DRIVER_API cuStreamEndCapture(CUstream handle, CUgraph* out) { return end_capture(handle, out); }

DRIVER_API cuStreamIsCapturing(CUstream handle, CUstreamCaptureStatus* status) {
    TURN_WITH_CONTEXT(turn);
    Stream* stream = find_stream(*turn.context, handle);
    if (!stream) return CUDA_ERROR_INVALID_HANDLE;
    *status = stream->capture ? CU_STREAM_CAPTURE_STATUS_ACTIVE : CU_STREAM_CAPTURE_STATUS_NONE;
    return CUDA_SUCCESS;
}

static CUresult instantiate(CUgraphExec* out, CUgraph handle) {
    TURN_WITH_CONTEXT(turn);
    Graph* graph = emulator().graphs.find(handle);
    if (!graph) return CUDA_ERROR_INVALID_VALUE;
    *out = emulator().graphs.add<CUgraphExec>(std::make_unique<Graph>(*graph));
    return CUDA_SUCCESS;
}
DRIVER_API cuGraphInstantiateWithFlags(CUgraphExec* out, CUgraph graph, unsigned long long) {
    return instantiate(out, graph);
}
DRIVER_API cuGraphInstantiate(CUgraphExec* out, CUgraph graph, CUgraphNode*, char*, size_t) {
    return instantiate(out, graph);
}

DRIVER_API cuGraphLaunch(CUgraphExec handle, CUstream stream_handle) {
    TURN_WITH_CONTEXT(turn);
    Graph* graph = emulator().graphs.find(handle);
    Stream* stream = find_stream(*turn.context, stream_handle);
    if (!graph || !stream) return CUDA_ERROR_INVALID_VALUE;
    for (const Operation& operation : graph->operations)
        if (CUresult error = submit(*turn.context, *stream, operation)) return error;
    return CUDA_SUCCESS;
}

DRIVER_API cuGraphDestroy(CUgraph graph) {
    Turn turn;
    emulator().graphs.remove(graph);
    return CUDA_SUCCESS;
}
DRIVER_API cuGraphExecDestroy(CUgraphExec graph) {
    Turn turn;
    emulator().graphs.remove(graph);
    return CUDA_SUCCESS;
}
