"""What a request holds ends with it, whether or not anybody finishes reading its generators."""

from __future__ import annotations

from contextlib import ExitStack

from inference.api.generation import Delta, PlacedToken, generate
from inference.api.held import held
from inference.api.request_record import RequestRecord
from inference.api.routing import lease_replica
from inference.api.sse import EventStream
from inference.engine.params import SequenceRequest, Token
from tests.fakes.executor import Gate
from tests.fakes.runtime import FakeServing
from tests.inference.api.wire import Wire, wait_until


async def test_closing_it_aborts_a_begun_stream(serving: FakeServing) -> None:
    """The generator is still referenced and suspended, and never closed."""
    gate = Gate()
    serving.before_step = gate
    serving.say("a long answer")
    gate.allow(1)
    with ExitStack() as holding:
        held.set(holding)
        replica = lease_replica("tiny", session_id="", tenant="")
        record = RequestRecord("id", "c", "/", "", "tiny", "r0", True, 0.0).begin_choice()
        items = generate(replica, SequenceRequest("id", (1, 2), 50), (), None, record)
        assert await anext(items) == Delta(
            "a", tokens=(PlacedToken(Token(serving.script.ids[0]), 0),)
        )
        assert serving.num_busy() == 3  # a lease, a slot and a page
    assert serving.num_busy() == 0
    gate.open()


async def test_a_response_that_is_never_iterated_closes_it() -> None:
    """The client left between the view and the first byte: no generator's finally would run."""
    closed = []
    holding = ExitStack()
    holding.callback(closed.append, "closed")

    async def events():
        yield b"data: 1\n\n"

    response = await EventStream.begin(events(), "id")
    response.own(holding)
    response.close()
    response.close()
    assert closed == ["closed"]


def test_readers_that_do_not_read_stall_nobody(wire: Wire, serving: FakeServing) -> None:
    """S31: a client that never reads its stream costs no slot once the answer is made."""
    serving.say("x" * 400)
    body = {"messages": [{"role": "user", "content": "Hi"}], "stream": True, "logprobs": True}
    idle = [wire.send("POST", "/v1/chat/completions", body) for _ in range(12)]
    wait_until(lambda: serving.num_accepted() == 12)
    assert wire.chat(max_tokens=3).status == 200
    (replica,) = serving.runtime.replicas()
    # More of an answer than the kernel takes waits for its reader, and keeps the lease: no slot, no page.
    wait_until(lambda: serving.num_busy() == replica.num_leases, within_s=20)
    for each in idle:
        each.close()
    wait_until(lambda: serving.num_busy() == 0, within_s=20)
