"""POST /v1/chat/completions and /v1/completions: each stage takes what the one before made.

Owns the order of the stages. Each of them lives in a module of its own.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from inference.api.auth import inference_caller
from inference.api.body import read_body
from inference.api.chat_reply import ChatReply
from inference.api.completion_reply import CompletionReply
from inference.api.endpoint import endpoint
from inference.api.errors import InvalidRequest
from inference.api.generation import generate
from inference.api.held import held
from inference.api.host_memory import host_bytes
from inference.api.interleave import interleave
from inference.api.prompt import chat_prompt, completion_prompts
from inference.api.reply import json_response, new_identity
from inference.api.request_record import RECORDS, RequestRecord
from inference.api.routing import lease_replica
from inference.api.sampling import sampling_params
from inference.api.schemas import CHAT_DECODER, COMPLETION_DECODER, MAX_SESSION_ID_LEN
from inference.api.sse import PING_INTERVAL_S, EventStream
from inference.api.threads import off_loop
from inference.api.unsupported import CHAT, COMPLETION, refuse_unsupported
from inference.engine.params import SequenceRequest
from inference.text.channels import ChannelSplitter
from registry.services import current_request_id

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

    from django.http import HttpRequest
    from django.http.response import HttpResponseBase

    from inference.api.auth import Caller
    from inference.api.generation import Item
    from inference.api.prompt import Prompt
    from inference.api.reply import Identity
    from inference.api.schemas import GenerationFields
    from inference.engine.params import SamplingParams
    from inference.runtime import ServedReplica

MAX_CHOICES_AT_ONCE = 8  # a long list of prompts must not fill the queue by itself


@endpoint("POST")
async def chat_completions(request: HttpRequest) -> HttpResponseBase:
    started_s = time.monotonic()
    caller = await inference_caller(request)
    body = await read_body(request, CHAT_DECODER)
    refuse_unsupported(body.fields, CHAT)
    chat = body.value
    session_id = _session_id(request, chat)
    replica = lease_replica(chat.model, session_id=session_id, tenant=caller.tenant)
    replica.worker.check_place()
    sampling = _sampling(chat, chat.num_logprobs, replica)
    prompt = await off_loop(lambda: chat_prompt(chat, replica))
    identity = new_identity("chatcmpl", replica.served_name, is_capped=prompt.is_capped)
    sequence = _sequence(identity.id, prompt, sampling, replica, caller, session_id, chat)
    splitter = ChannelSplitter(prompt.opens_reasoning)
    stops = chat.stops + replica.text.chat_stops
    record = _record(request, identity, replica, caller, chat, started_s)
    record.num_dropped_messages = prompt.num_dropped_messages
    choice = record.begin_choice()
    source = generate(replica, sequence, stops, splitter, choice, PING_INTERVAL_S)
    items = _interleaved([source])
    reply = ChatReply(
        identity, replica.text.tokenizer, chat.num_logprobs is not None, chat.include_usage
    )
    if chat.stream:
        return await EventStream.begin(reply.events(items), identity.id)
    return json_response(await reply.whole(items))


@endpoint("POST")
async def completions(request: HttpRequest) -> HttpResponseBase:
    started_s = time.monotonic()
    caller = await inference_caller(request)
    body = await read_body(request, COMPLETION_DECODER)
    refuse_unsupported(body.fields, COMPLETION)
    completion = body.value
    session_id = _session_id(request, completion)
    replica = lease_replica(completion.model, session_id=session_id, tenant=caller.tenant)
    replica.worker.check_place()
    sampling = _sampling(completion, completion.logprobs, replica)
    prompts = await off_loop(lambda: completion_prompts(completion, replica))
    identity = new_identity("cmpl", replica.served_name)
    sequences = [
        _sequence(identity.id, each, sampling, replica, caller, session_id, completion)
        for each in prompts
    ]
    record = _record(request, identity, replica, caller, completion, started_s)
    sources = [
        generate(replica, each, completion.stops, None, record.begin_choice(), PING_INTERVAL_S)
        for each in sequences
    ]
    items = _interleaved(sources)
    reply = CompletionReply(
        identity,
        replica.text.tokenizer,
        [each.echo for each in prompts],
        completion.logprobs is not None,
        completion.include_usage,
    )
    if completion.stream:
        return await EventStream.begin(reply.events(items), identity.id)
    return json_response(await reply.whole(items))


def _interleaved(
    sources: list[AsyncGenerator[Item | None, None]],
) -> AsyncGenerator[tuple[int, Item] | None, None]:
    return interleave(sources, at_once=MAX_CHOICES_AT_ONCE)


def _record(
    request: HttpRequest,
    identity: Identity,
    replica: ServedReplica,
    caller: Caller,
    fields: GenerationFields,
    started_s: float,
) -> RequestRecord:
    """Kept from now on, and ended with what the request holds."""
    record = RequestRecord(
        request_id=current_request_id.get(),
        completion_id=identity.id,
        route=request.path_info,
        tenant=caller.tenant,
        model=replica.served_name,
        replica_id=replica.replica_id,
        is_stream=bool(fields.stream),
        started_s=started_s,
    )
    RECORDS.add(record)
    held.get().callback(record.end)
    return record


def _session_id(request: HttpRequest, fields: GenerationFields) -> str:
    session_id = fields.session_id or request.headers.get("X-Session-Id", "")
    if len(session_id) > MAX_SESSION_ID_LEN:
        raise InvalidRequest(
            f"The X-Session-Id header is longer than {MAX_SESSION_ID_LEN} characters.", "session_id"
        )
    return session_id


def _sampling(
    fields: GenerationFields, num_logprobs: int | None, replica: ServedReplica
) -> SamplingParams:
    return sampling_params(
        fields,
        defaults=replica.sampling,
        num_logprobs=num_logprobs,
        vocab_size=replica.text.tokenizer.vocab_size,
        context_len=replica.context_len,
    )


def _sequence(
    request_id: str,
    prompt: Prompt,
    sampling: SamplingParams,
    replica: ServedReplica,
    caller: Caller,
    session_id: str,
    fields: GenerationFields,
) -> SequenceRequest:
    return SequenceRequest(
        request_id=request_id,
        prompt_ids=prompt.ids,
        max_tokens=prompt.max_tokens,
        end_ids=replica.text.tokenizer.end_ids,
        sampling=sampling,
        tenant=caller.tenant,
        session_id=session_id,
        # What begins in the middle of a conversation is of no use to the next turn.
        use_prefix_cache=not prompt.is_capped,
        host_bytes=host_bytes(
            len(prompt.ids), prompt.max_tokens, sampling.num_logprobs, is_stream=bool(fields.stream)
        ),
    )
