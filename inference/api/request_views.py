"""GET /v1/requests/{id}: what became of one generation request, told to who may know it.

Owns the form of the answer. Nothing in it says what was asked or answered.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from msgspec import Struct

from inference.api.auth import CONTROL_SCOPE, keyed_caller
from inference.api.endpoint import endpoint
from inference.api.errors import RequestNotFound
from inference.api.reply import json_response
from inference.api.request_record import RECORDS

if TYPE_CHECKING:
    from django.http import HttpRequest
    from django.http.response import HttpResponseBase

    from inference.api.request_record import ChoiceRecord, RequestRecord
    from inference.engine.admission import Admission


class AdmissionStatus(Struct, frozen=True):
    """What the sequence may need and what there was when it was accepted; pages of KV memory."""

    pages_at_most: int
    pages_free: int
    ahead_in_queue: int
    host_bytes: int
    pressure: str


class ChoiceStatus(Struct, frozen=True):
    """tokens_per_s: of the output after its first token. chunks: pieces its prompt was computed in.

    preempted: times it gave its pages to an older one; parked: times to another because its client
    did not read. surplus_tokens: sampled after a stop string, or never read.
    """

    finish_reason: str | None
    admission: AdmissionStatus | None
    queue_wait_s: float | None
    prefill_s: float | None
    decode_s: float | None
    tokens_per_s: float | None
    chunks: int
    preempted: int
    parked: int
    prompt_tokens: int
    cached_tokens: int
    completion_tokens: int
    surplus_tokens: int


class RequestStatus(Struct, frozen=True):
    id: str
    completion_id: str
    route: str
    model: str
    replica_id: str
    stream: bool
    state: Literal["running", "ended"]
    started: float
    queue_wait_s: float | None
    ttft_s: float | None
    duration_s: float | None
    tokens_per_s: float | None
    prompt_tokens: int
    cached_tokens: int
    completion_tokens: int
    surplus_tokens: int
    chunks: int
    context_capped: bool
    dropped_messages: int
    finish_reasons: tuple[str | None, ...]
    error: str | None
    choices: tuple[ChoiceStatus, ...]


@endpoint("GET")
async def request_status(request: HttpRequest, request_id: str) -> HttpResponseBase:
    """To the key that asked, or to one with the admin scope. Raises: RequestNotFound."""
    caller = await keyed_caller(request)
    sees_all = CONTROL_SCOPE in caller.scopes
    record = RECORDS.find(request_id, tenant=None if sees_all else caller.tenant)
    if record is None:
        raise RequestNotFound(request_id)
    return json_response(_status(record))


def _status(record: RequestRecord) -> RequestStatus:
    usage, choices = record.usage, tuple(map(_choice, record.choices))
    waits = [each.queue_wait_s for each in choices if each.queue_wait_s is not None]
    speeds = [each.tokens_per_s for each in choices if each.tokens_per_s is not None]
    return RequestStatus(
        id=record.request_id,
        completion_id=record.completion_id,
        route=record.route,
        model=record.model,
        replica_id=record.replica_id,
        stream=record.is_stream,
        state="running" if record.duration_s is None else "ended",
        started=record.started_unix_s,
        queue_wait_s=max(waits, default=None),
        ttft_s=record.ttft_s,
        duration_s=record.duration_s,
        tokens_per_s=sum(speeds) / len(speeds) if speeds else None,
        prompt_tokens=usage.num_prompt_tokens,
        cached_tokens=usage.num_cached_tokens,
        completion_tokens=usage.num_output_tokens,
        surplus_tokens=sum(each.surplus_tokens for each in choices),
        chunks=sum(each.chunks for each in choices),
        context_capped=record.num_dropped_messages > 0,
        dropped_messages=record.num_dropped_messages,
        finish_reasons=record.finish_reasons,
        error=record.error or None,
        choices=choices,
    )


def _choice(choice: ChoiceRecord) -> ChoiceStatus:
    usage, progress, admission = choice.usage, choice.progress, choice.admission
    return ChoiceStatus(
        finish_reason=choice.finish_reason,
        admission=None if admission is None else _admission(admission),
        queue_wait_s=progress.queue_wait_s,
        prefill_s=progress.prefill_s,
        decode_s=progress.decode_s,
        tokens_per_s=(
            (usage.num_output_tokens - 1) / progress.decode_s if progress.decode_s else None
        ),
        chunks=progress.num_chunks,
        preempted=progress.num_preempted,
        parked=progress.num_parked,
        prompt_tokens=usage.num_prompt_tokens,
        cached_tokens=usage.num_cached_tokens,
        completion_tokens=usage.num_output_tokens,
        surplus_tokens=progress.num_surplus_tokens,
    )


def _admission(admission: Admission) -> AdmissionStatus:
    return AdmissionStatus(
        pages_at_most=admission.num_pages_at_most,
        pages_free=admission.num_pages_free,
        ahead_in_queue=admission.num_ahead,
        host_bytes=admission.host_bytes,
        pressure=admission.pressure.name.lower(),
    )
