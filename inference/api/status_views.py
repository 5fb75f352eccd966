"""How the server is doing: metrics, slots, properties, and what became of one request.

Never waits for a generation, and tells nobody what another asked.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from django.conf import settings
from django.http import HttpResponse
from msgspec import Struct

from inference.api import metrics
from inference.api.auth import CONTROL_SCOPE, inference_caller, keyed_caller
from inference.api.endpoint import endpoint
from inference.api.errors import RequestNotFound
from inference.api.reply import json_response
from inference.api.request_record import RECORDS
from inference.api.routing import started_runtime
from inference.api.threads import off_loop

if TYPE_CHECKING:
    from django.http import HttpRequest
    from django.http.response import HttpResponseBase

    from inference.runtime import ServedReplica


class ReplicaSlots(Struct, frozen=True):
    replica_id: str
    model: str
    state: Literal["ready", "draining"]
    num_slots: int
    num_slots_used: int
    num_queued: int
    num_requests: int
    num_pages: int
    num_pages_used: int
    num_pages_cached: int
    pressure: str


class Slots(Struct, frozen=True):
    replicas: list[ReplicaSlots]


class ModelProps(Struct, frozen=True):
    id: str
    context_length: int
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


class Props(Struct, frozen=True):
    """`total_slots` and `default_generation_settings` are llama-server's, of the first model."""

    models: list[ModelProps]
    limits: Limits
    total_slots: int
    default_generation_settings: GenerationSettings


class RequestStatus(Struct, frozen=True):
    id: str
    completion_id: str
    route: str
    model: str
    replica_id: str
    stream: bool
    state: Literal["running", "ended"]
    started: float
    ttft_s: float | None
    duration_s: float | None
    prompt_tokens: int
    cached_tokens: int
    completion_tokens: int
    finish_reasons: tuple[str | None, ...]
    error: str | None


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
            default_generation_settings=GenerationSettings(first.context_length if first else 0),
        )
    )


@endpoint("GET")
async def request_status(request: HttpRequest, request_id: str) -> HttpResponseBase:
    """To the key that asked, or to one with the admin scope. Raises: RequestNotFound."""
    caller = await keyed_caller(request)
    sees_all = CONTROL_SCOPE in caller.scopes
    record = RECORDS.find(request_id, tenant=None if sees_all else caller.tenant)
    if record is None:
        raise RequestNotFound(request_id)
    usage = record.usage
    return json_response(
        RequestStatus(
            id=record.request_id,
            completion_id=record.completion_id,
            route=record.route,
            model=record.model,
            replica_id=record.replica_id,
            stream=record.is_stream,
            state="running" if record.duration_s is None else "ended",
            started=record.started_unix_s,
            ttft_s=record.ttft_s,
            duration_s=record.duration_s,
            prompt_tokens=usage.num_prompt_tokens,
            cached_tokens=usage.num_cached_tokens,
            completion_tokens=usage.num_output_tokens,
            finish_reasons=record.finish_reasons,
            error=record.error or None,
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
        num_requests=replica.num_leases,
        num_pages=stats.num_pages,
        num_pages_used=stats.num_pages_used,
        num_pages_cached=stats.num_pages_cached,
        pressure=stats.pressure.name.lower(),
    )


def _props(name: str, replicas: list[ServedReplica]) -> ModelProps:
    text = replicas[0].text
    return ModelProps(
        id=name,
        context_length=max(each.context_len for each in replicas),
        vocab_size=text.tokenizer.vocab_size,
        has_own_chat_template=text.has_own_template,
        num_replicas=len(replicas),
        total_slots=sum(each.worker.stats().num_slots for each in replicas),
    )
