"""How requests are run: those of the inference API on the event loop alone, others Django's way."""

from __future__ import annotations

import asyncio
import threading

import pytest

from inference.api.handler import ApiHandler
from inference.api.middleware import is_inference_path
from tests.fakes.executor import Gate
from tests.fakes.runtime import FakeServing
from tests.inference.api.wire import Wire, request_bytes, wait_until


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("/v1/chat/completions", True),
        ("/chat/completions", True),
        ("/v1/nothing", True),
        ("/v1", True),
        ("/models/a/b", True),
        ("/health", True),
        ("/metrics", True),
        ("/", False),
        ("/admin/", False),
        ("/admin/dies", False),
        ("/admin/models/load", False),
        ("/static/x.css", False),
        ("/v11/x", False),
    ],
)
def test_which_requests_take_the_short_way(path: str, expected: bool) -> None:
    """Control requests may need a session, and so the database."""
    assert is_inference_path(path) is expected


def test_a_request_starts_no_thread(wire: Wire, serving: FakeServing) -> None:
    """What a thread for each request costs is felt when many come at once."""
    serving.say("well")
    wire.chat()
    started = []
    start = threading.Thread.start
    with pytest.MonkeyPatch.context() as patching:
        patching.setattr(threading.Thread, "start", lambda t: started.append(t) or start(t))
        for _ in range(5):
            assert wire.chat(stream=True).status == 200
            assert wire.get("/v1/models").status == 200
    assert not [each.name for each in started if not each.name.startswith("prompt")]


def scope(path: str) -> dict:
    headers = [(b"host", b"localhost")]
    return {"type": "http", "method": "POST", "path": path, "headers": headers, "query_string": b""}


async def ask(body: bytes, sent: list, then: asyncio.Event) -> None:
    """The client leaves once `then` is set."""
    messages = iter([{"type": "http.request", "body": body}])

    async def receive() -> dict:
        for message in messages:
            return message
        await then.wait()
        return {"type": "http.disconnect"}

    async def send(message: dict) -> None:
        sent.append(message)

    await ApiHandler()(scope("/v1/chat/completions"), receive, send)


BODY = request_bytes("POST", "/", {"messages": [{"role": "user", "content": "Hi"}]}).partition(
    b"\r\n\r\n"
)[2]


async def test_a_client_that_leaves_is_not_answered(serving: FakeServing, no_keys: None) -> None:
    gate = serving.before_step = Gate()
    sent: list = []
    leaving = asyncio.Event()
    asking = asyncio.create_task(ask(BODY, sent, leaving))
    await asyncio.to_thread(gate.wait_for_step)
    leaving.set()
    await asking
    assert sent == []
    assert sum(each.num_leases for each in serving.runtime.replicas()) == 0
    gate.open()


async def test_a_server_that_gives_up_leaves_nothing_running(
    serving: FakeServing, no_keys: None
) -> None:
    """Cancelling the application, as a server does at its end, cancels the view with it."""
    gate = serving.before_step = Gate()
    asking = asyncio.create_task(ask(BODY, [], asyncio.Event()))
    await asyncio.to_thread(gate.wait_for_step)
    before = asyncio.all_tasks()
    asking.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asking
    assert all(task.done() for task in before - {asyncio.current_task()})
    gate.open()
    await asyncio.to_thread(wait_until, lambda: serving.num_busy() == 0)


async def test_a_client_that_leaves_within_its_body_asks_nothing(serving: FakeServing) -> None:
    async def receive() -> dict:
        return {"type": "http.disconnect"}

    async def send(message: dict) -> None:
        raise AssertionError(message)

    await ApiHandler()(scope("/v1/chat/completions"), receive, send)
    assert serving.num_accepted() == 0
