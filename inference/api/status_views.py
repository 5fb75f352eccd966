"""How the server is doing: metrics, slots, the prefix cache, properties.

Never waits for a generation, and tells nobody what another asked.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from django.conf import settings
from django.http import HttpResponse
from msgspec import UNSET, Struct, UnsetType

from inference.api import metrics
from inference.api.auth import inference_caller
from inference.api.endpoint import endpoint
from inference.api.reply import json_response
from inference.api.routing import started_runtime
from inference.api.threads import off_loop

if TYPE_CHECKING:
    from django.http import HttpRequest
    from django.http.response import HttpResponseBase

    from inference.engine.params import SamplingParams
    from inference.runtime import ServedReplica


class ReplicaSlots(Struct, frozen=True):
    replica_id: str
    model: str
    state: Literal["ready", "draining"]
    num_slots: int
    num_slots_used: int
    num_queued: int
    num_paused: int
    num_requests: int
    num_pages: int
    num_pages_used: int
    num_pages_cached: int
    pressure: str


class Slots(Struct, frozen=True):
    replicas: list[ReplicaSlots]


class ReplicaCache(Struct, frozen=True):
    """Pages are used, cached for whoever begins with the same tokens, or free; each holds `page_len` tokens.

    hits and misses: prompts whose beginning was known, or not. tokens_saved: of prompts, not computed.
    """

    replica_id: str
    model: str
    page_len: int
    pages: int
    pages_used: int
    pages_cached: int
    pages_free: int
    hits: int
    misses: int
    tokens_saved: int
    tokens_computed: int
    evictions: int


class CacheStats(Struct, frozen=True):
    replicas: list[ReplicaCache]


class SamplingSettings(Struct, frozen=True):
    """What holds where a request does not say, under the names requests use."""

    temperature: float
    top_p: float
    top_k: int
    min_p: float
    typical_p: float
    repeat_penalty: float
    repeat_last_n: int
    presence_penalty: float
    frequency_penalty: float


class ModelProps(Struct, frozen=True):
    id: str
    context_length: int
    default_sampling: SamplingSettings
    vocab_size: int
    has_own_chat_template: bool
    num_replicas: int
    total_slots: int


class Limits(Struct, frozen=True):
    max_body_bytes: int
    queue_depth: int
    queue_wait_s: float
    prefill_chunk: int


class GenerationSettings(Struct, frozen=True):
    n_ctx: int
    params: SamplingSettings | UnsetType


class Props(Struct, frozen=True):
    """`total_slots` and `default_generation_settings` are llama-server's, of the first model."""

    models: list[ModelProps]
    limits: Limits
    total_slots: int
    default_generation_settings: GenerationSettings


@endpoint("GET")
async def metrics_page(request: HttpRequest) -> HttpResponseBase:
    await inference_caller(request)
    accept = request.headers.get("Accept", "")
    body, content_type = await off_loop(lambda: metrics.page(accept))
    return HttpResponse(body, content_type=content_type)


@endpoint("GET")
async def slots(request: HttpRequest) -> HttpResponseBase:
    await inference_caller(request)
    return json_response(Slots([_slots(each) for each in started_runtime().replicas()]))


@endpoint("GET")
async def cache_stats(request: HttpRequest) -> HttpResponseBase:
    await inference_caller(request)
    return json_response(CacheStats([_cache(each) for each in started_runtime().replicas()]))


@endpoint("GET")
async def props(request: HttpRequest) -> HttpResponseBase:
    await inference_caller(request)
    by_name: dict[str, list[ServedReplica]] = {}
    for replica in started_runtime().replicas():
        by_name.setdefault(replica.served_name, []).append(replica)
    models = [_props(name, replicas) for name, replicas in by_name.items()]
    values = settings.PANTHEON
    limits = Limits(
        max_body_bytes=values["PANTHEON_MAX_BODY_BYTES"],
        queue_depth=values["PANTHEON_QUEUE_DEPTH"],
        queue_wait_s=values["PANTHEON_QUEUE_WAIT_S"],
        prefill_chunk=values["PANTHEON_PREFILL_CHUNK"],
    )
    first = models[0] if models else None
    return json_response(
        Props(
            models,
            limits,
            total_slots=first.total_slots if first else 0,
            default_generation_settings=GenerationSettings(
                first.context_length if first else 0, first.default_sampling if first else UNSET
            ),
        )
    )


def _slots(replica: ServedReplica) -> ReplicaSlots:
    stats = replica.worker.stats()
    return ReplicaSlots(
        replica_id=replica.replica_id,
        model=replica.served_name,
        state="draining" if replica.draining else "ready",
        num_slots=stats.num_slots,
        num_slots_used=stats.num_slots_used,
        num_queued=stats.num_queued,
        num_paused=stats.num_paused,
        num_requests=replica.num_leases,
        num_pages=stats.num_pages,
        num_pages_used=stats.num_pages_used,
        num_pages_cached=stats.num_pages_cached,
        pressure=stats.pressure.name.lower(),
    )


def _cache(replica: ServedReplica) -> ReplicaCache:
    stats = replica.worker.stats()
    return ReplicaCache(
        replica_id=replica.replica_id,
        model=replica.served_name,
        page_len=stats.page_len,
        pages=stats.num_pages,
        pages_used=stats.num_pages_used,
        pages_cached=stats.num_pages_cached,
        pages_free=stats.num_pages - stats.num_pages_used - stats.num_pages_cached,
        hits=stats.counts.num_prefix_hits,
        misses=stats.counts.num_prefix_misses,
        tokens_saved=stats.counts.num_cached_tokens,
        tokens_computed=stats.counts.num_prompt_tokens,
        evictions=stats.num_pages_evicted,
    )


def _props(name: str, replicas: list[ServedReplica]) -> ModelProps:
    text = replicas[0].text
    return ModelProps(
        id=name,
        context_length=max(each.context_len for each in replicas),
        default_sampling=_sampling(replicas[0].sampling),
        vocab_size=text.tokenizer.vocab_size,
        has_own_chat_template=text.has_own_template,
        num_replicas=len(replicas),
        total_slots=sum(each.worker.stats().num_slots for each in replicas),
    )


def _sampling(params: SamplingParams) -> SamplingSettings:
    return SamplingSettings(
        **{name: getattr(params, name) for name in SamplingSettings.__struct_fields__}
    )
