"""Events of which only the text is made anew are, byte by byte, those that are made whole."""

from __future__ import annotations

from typing import Any

import pytest

from inference.api.chat_reply import ChatReply, ChunkDelta
from inference.api.completion_reply import CompletionChoice, CompletionReply
from inference.api.reply import new_identity
from inference.api.sse import EventFrame, event

TEXTS = ["", " the", '"', "\\", "\n\r\t\x00\x1f\x7f", "é🙂\u2028", '"content":""', "</script>"]
NAMES = ["tiny", '"content":""', '\\"text":""', "é"]


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("is_capped", [True, False])
@pytest.mark.parametrize("include_usage", [True, False])
def test_of_a_chat(name: str, is_capped: bool, include_usage: bool) -> None:
    tokenizer: Any = None  # for logprobs alone
    reply = ChatReply(new_identity("c", name, is_capped=is_capped), tokenizer, False, include_usage)
    frame = EventFrame(reply._message(ChunkDelta(content="")), "content")
    for text in TEXTS:
        assert frame.event(text) == event(reply._message(ChunkDelta(content=text)))


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("include_usage", [True, False])
def test_of_a_completion(name: str, include_usage: bool) -> None:
    tokenizer: Any = None
    reply = CompletionReply(new_identity("c", name), tokenizer, ["", ""], False, include_usage)
    for index in range(2):
        frame = EventFrame(reply._message(CompletionChoice(index, "", None, None)), "text")
        for text in TEXTS:
            whole = reply._message(CompletionChoice(index, text, None, None))
            assert frame.event(text) == event(whole)
