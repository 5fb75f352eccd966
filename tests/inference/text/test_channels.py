"""Reasoning and answer are told apart by `<think>`, however the text is cut."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from inference.text.channels import ChannelSplitter


def run(pieces: list[str], starts_in_reasoning: bool = False) -> tuple[str, str]:
    """(reasoning, content)"""
    splitter = ChannelSplitter(starts_in_reasoning)
    found = {"reasoning": "", "content": ""}
    for channel, text in [
        *(p for piece in pieces for p in splitter.push(piece)),
        *splitter.flush(),
    ]:
        assert text
        found[channel] += text
    return found["reasoning"], found["content"]


CASES = [
    ("plain answer", False, "", "plain answer"),
    ("  indented", False, "", "  indented"),
    ("<think>\nhm\n</think>\n\nyes\n", False, "hm", "yes\n"),
    ("\n<think>hm</think>yes", False, "hm", "yes"),
    ("<think>\n\n</think>\n\nyes", False, "", "yes"),
    ("hm\n\nmore\n</think>\n\nyes", True, "hm\n\nmore", "yes"),
    ("never closed </thin", True, "never closed </thin", ""),
    ("<think>a < b </ c</think>d", False, "a < b </ c", "d"),
    ("say <think> to think</think>", False, "", "say <think> to think</think>"),
    ("<think>a</think>b<think>c</think>", False, "a", "b<think>c</think>"),
    ("<thin", False, "", "<thin"),
    ("", True, "", ""),
]


@pytest.mark.parametrize("text, starts_in_reasoning, reasoning, content", CASES)
def test_whole_and_by_the_character(
    text: str, starts_in_reasoning: bool, reasoning: str, content: str
) -> None:
    assert run([text], starts_in_reasoning) == (reasoning, content)
    assert run(list(text), starts_in_reasoning) == (reasoning, content)


def test_reasoning_is_shown_while_it_comes() -> None:
    splitter = ChannelSplitter(starts_in_reasoning=True)
    assert splitter.push("one ") == [("reasoning", "one")]
    assert splitter.push("two</") == [("reasoning", " two")]
    assert splitter.push("think>yes") == [("content", "yes")]


@given(
    st.lists(
        st.sampled_from(["<think>", "</think>", "<", "think", ">", "\n", " ", "a"]), max_size=12
    ),
    st.booleans(),
)
def test_cutting_the_text_changes_nothing(parts: list[str], starts_in_reasoning: bool) -> None:
    whole = "".join(parts)
    assert run(parts, starts_in_reasoning) == run([whole], starts_in_reasoning)
    assert run(list(whole), starts_in_reasoning) == run([whole], starts_in_reasoning)
