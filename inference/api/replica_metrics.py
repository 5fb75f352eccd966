"""Which metric shows which number of a worker: one table, read at each scrape.

Owns the names. A new number in `inference.engine.stats` gets a row here; a test says so.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from prometheus_client.metrics_core import CounterMetricFamily, GaugeMetricFamily, Metric

if TYPE_CHECKING:
    from inference.engine.stats import WorkerStats
    from inference.runtime import ServedReplica

LABELS = ("model", "replica")
VLLM_LABELS = ("model_name", "engine")


@dataclass(frozen=True)
class Row:
    """`also`: what vLLM calls it; its dashboards, and the routers that read it, look for that name.

    Names of totals go without their `_total`; an empty name is one that only vLLM has.
    """

    name: str
    help: str
    value: Callable[[WorkerStats], float]
    also: str = ""


GAUGES = (
    Row("slots", "Sequences it runs at once at most.", lambda s: s.num_slots),
    Row(
        "slots_used", "Sequences it runs.", lambda s: s.num_slots_used, also="num_requests_running"
    ),
    Row(
        "queue_length",
        "Sequences that wait for a slot.",
        lambda s: s.num_queued,
        also="num_requests_waiting",
    ),
    Row("paused", "Sequences whose clients do not read.", lambda s: s.num_paused),
    Row("kv_page_tokens", "Tokens that a page holds.", lambda s: s.page_len),
    Row("kv_pages", "Pages of KV memory.", lambda s: s.num_pages),
    Row("kv_pages_used", "Pages that sequences hold.", lambda s: s.num_pages_used),
    Row("kv_pages_cached", "Pages kept for a prefix that may return.", lambda s: s.num_pages_cached),
    Row(
        "", "Share of KV memory in use.", lambda s: s.num_pages_used / s.num_pages,
        also="kv_cache_usage_perc",
    ),
    Row("memory_pressure", "The host's, from 0 (low) to 3 (critical).", lambda s: s.pressure.value),
)  # fmt: skip
COUNTERS = (
    Row("sequences_accepted", "Taken into the queue.", lambda s: s.counts.num_accepted),
    Row("sequences_refused", "Refused by a full queue.", lambda s: s.counts.num_refused),
    Row("sequences_completed", "Ended by themselves.", lambda s: s.counts.num_completed),
    Row("sequences_aborted", "Given up by their clients.", lambda s: s.counts.num_aborted),
    Row("sequences_timed_out", "Waited too long in the queue.", lambda s: s.counts.num_timed_out),
    Row("sequences_failed", "Lost with the replica.", lambda s: s.counts.num_failed),
    Row(
        "preemptions",
        "Times a sequence gave its pages to an older one.",
        lambda s: s.counts.num_preempted,
        also="num_preemptions",
    ),
    Row("parks", "Times an unread one gave its place up.", lambda s: s.counts.num_parked),
    Row("prefix_hits", "Prompts begun from the cache.", lambda s: s.counts.num_prefix_hits),
    Row("prefix_misses", "Prompts looked for in vain.", lambda s: s.counts.num_prefix_misses),
    Row("prompt_tokens_computed", "Prompt tokens computed.", lambda s: s.counts.num_prompt_tokens),
    Row(
        "prompt_tokens_cached",
        "Prompt tokens found in the cache.",
        lambda s: s.counts.num_cached_tokens,
        also="prefix_cache_hits",
    ),
    Row("", "Prompt tokens.", lambda s: _num_prompt_tokens(s), also="prompt_tokens"),
    Row(
        "", "Prompt tokens looked for in the cache.", lambda s: _num_prompt_tokens(s),
        also="prefix_cache_queries",
    ),
    Row(
        "output_tokens",
        "Tokens sampled.",
        lambda s: s.counts.num_output_tokens,
        also="generation_tokens",
    ),
    Row(
        "surplus_tokens",
        "Of those, after a stop string or never read.",
        lambda s: s.counts.num_surplus_tokens,
    ),
    Row("kv_pages_evicted", "Cached pages taken for others.", lambda s: s.num_pages_evicted),
    Row("steps", "Runs of the model's program.", lambda s: s.counts.num_steps),
    Row("step_seconds", "Time inside them.", lambda s: s.counts.step_s),
)  # fmt: skip


def _num_prompt_tokens(stats: WorkerStats) -> int:
    return stats.counts.num_prompt_tokens + stats.counts.num_cached_tokens


def _memory(replicas: Iterable[ServedReplica]) -> Metric:
    metric = GaugeMetricFamily(
        "pantheon_replica_memory_bytes", "Memory it holds, on the host or its dies.",
        labels=(*LABELS, "kind"),
    )  # fmt: skip
    for replica in replicas:
        memory, labels = replica.memory, (replica.served_name, replica.replica_id)
        metric.add_metric((*labels, "weights"), memory.weight_bytes)
        metric.add_metric((*labels, "kv"), memory.kv_bytes)
        metric.add_metric((*labels, "buffers"), memory.buffer_bytes)
    return metric


def replica_metrics(replicas: Iterable[ServedReplica]) -> Iterator[Metric]:
    replicas = tuple(replicas)
    yield _memory(replicas)
    snapshots = [((r.served_name, r.replica_id), r.worker.stats()) for r in replicas]
    for rows, family in ((GAUGES, GaugeMetricFamily), (COUNTERS, CounterMetricFamily)):
        for row in rows:
            for prefix, name, labels in (
                ("pantheon_", row.name, LABELS),
                ("vllm:", row.also, VLLM_LABELS),
            ):
                if name:
                    metric = family(prefix + name, row.help, labels=labels)
                    for values, stats in snapshots:
                        metric.add_metric(values, row.value(stats))
                    yield metric
