"""What Prometheus is told about requests: instruments, their names here and elsewhere, the page.

Owns the registry of this process. Labels are served names and replicas that are loaded, dies, routes
and statuses: nothing that a client can make up.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import prometheus_client
from prometheus_client import CollectorRegistry, Counter, Histogram, ProcessCollector
from prometheus_client.exposition import choose_encoder
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from inference.api.die_metrics import die_metrics
from inference.api.errors import translate
from inference.api.replica_metrics import LABELS, VLLM_LABELS, replica_metrics
from inference.dies import seen_dies
from inference.runtime_access import get_runtime

if TYPE_CHECKING:
    from inference.api.errors import Failure
    from inference.runtime import ServedReplica

prometheus_client.disable_created_metrics()  # type: ignore[no-untyped-call]

_SHORT_S = (0.001, 0.0025, 0.005, 0.01, 0.02, 0.04, 0.08, 0.15, 0.3, 0.6, 1.2, 2.5, 5.0, 10.0)
_LONG_S = (0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 25.0, 50.0, 100.0, 300.0)

REGISTRY = CollectorRegistry()
ProcessCollector(registry=REGISTRY)
HTTP_REQUESTS = Counter(
    "pantheon_http_requests",
    "Answers by route and status; 'refused' before any route, 499 when the client left first.",
    ("route", "status"),
    registry=REGISTRY,
)
REQUESTS_FINISHED = Counter(
    "pantheon_requests_finished",
    "Choices of generation requests, by how they ended.",
    (*LABELS, "reason"),
    registry=None,
)
TTFT_S = Histogram(
    "pantheon_time_to_first_token_seconds",
    "From a generation request's arrival to its first token.",
    LABELS,
    buckets=_LONG_S,
    registry=None,
)
INTER_TOKEN_S = Histogram(
    "pantheon_inter_token_seconds",
    "Between a stream's tokens as its request took them.",
    LABELS,
    buckets=_SHORT_S,
    registry=None,
)
DURATION_S = Histogram(
    "pantheon_request_seconds",
    "From a generation request's arrival to its end.",
    LABELS,
    buckets=_LONG_S,
    registry=None,
)

# What vLLM calls them: its dashboards, and the routers that read them, look for these names.
_ALSO = (
    (TTFT_S, ("vllm:time_to_first_token_seconds",)),
    (INTER_TOKEN_S, ("vllm:time_per_output_token_seconds", "vllm:inter_token_latency_seconds")),
    (DURATION_S, ("vllm:e2e_request_latency_seconds",)),
    (REQUESTS_FINISHED, ()),
)
_TO_VLLM = dict(zip(LABELS, VLLM_LABELS, strict=True))


class _Replicas(Collector):
    """What is kept or known by replica or die. Forgets replicas that are gone."""

    def collect(self) -> Iterator[Metric]:
        replicas = _loaded()
        yield from replica_metrics(replicas)
        yield from die_metrics(seen_dies(), replicas)
        loaded = {each.replica_id for each in replicas}
        for instrument, other_names in _ALSO:
            _forget_all_but(loaded, instrument)
            for metric in instrument.collect():
                yield metric
                for name in other_names:
                    yield _renamed(metric, name)


REGISTRY.register(_Replicas())


def page(accept: str) -> tuple[bytes, str]:
    """All metrics in the text format that a scraper accepts, and its content type."""
    encode, content_type = choose_encoder(accept)
    return encode(REGISTRY), content_type


def translate_counted(error: BaseException) -> Failure:
    """For refusals that never reach a route."""
    failure = translate(error)
    HTTP_REQUESTS.labels("refused", str(failure.status)).inc()
    return failure


def _loaded() -> tuple[ServedReplica, ...]:
    try:
        return tuple(get_runtime().replicas())
    except RuntimeError:
        return ()


def _forget_all_but(loaded: set[str], instrument: Counter | Histogram) -> None:
    names = (*LABELS, "reason") if instrument is REQUESTS_FINISHED else LABELS
    for metric in instrument.collect():
        known = {tuple(sample.labels[name] for name in names) for sample in metric.samples}
        for labels in known:
            if labels[1] not in loaded:
                instrument.remove(*labels)


def _renamed(metric: Metric, name: str) -> Metric:
    renamed = Metric(name, metric.documentation, metric.type)
    renamed.samples = [
        sample._replace(
            name=name + sample.name.removeprefix(metric.name),
            labels={_TO_VLLM.get(key, key): value for key, value in sample.labels.items()},
        )
        for sample in metric.samples
    ]
    return renamed
