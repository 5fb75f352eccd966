"""POST /v1/chat/completions, answered in one piece."""

from __future__ import annotations

import re

from tests.fakes.runtime import FakeServing
from tests.inference.api.wire import Wire


def test_it_works(wire: Wire, serving: FakeServing) -> None:
    """S5: the text the model says comes back, with the object, ids and counts OpenAI's clients read."""
    ids = serving.say("the answer")
    answer = wire.chat("Hi", model="tiny")
    assert answer.status == 200
    assert answer.headers["content-type"] == "application/json"
    reply = answer.json
    assert reply["object"] == "chat.completion"
    assert re.fullmatch(r"chatcmpl-[0-9a-f]{32}", reply["id"])
    assert reply["model"] == "tiny"
    assert reply["choices"] == [
        {
            "index": 0,
            "message": {"role": "assistant", "content": "the answer"},
            "logprobs": None,
            "finish_reason": "stop",
        }
    ]
    usage = reply["usage"]
    assert usage["completion_tokens"] == len(ids)
    assert usage["total_tokens"] == usage["prompt_tokens"] + usage["completion_tokens"]
    assert serving.num_busy() == 0
