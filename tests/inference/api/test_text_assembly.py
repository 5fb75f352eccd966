"""Tokens to deltas: the same text, tokens and counts however steps cut them."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from inference.api.generation import Delta, TextAssembly
from inference.engine.params import Token
from inference.text.channels import ChannelSplitter
from inference.text.text_model import TextModel

PIECES = [
    "the",
    " ",
    "STOP",
    "STO",
    "S",
    "é",
    "🙂",
    "<think>",
    "</think>",
    "</thi",
    "\n",
    "END",
    "x",
]


def run(
    text_model: TextModel, ids: Sequence[int], cuts: Sequence[int], stops: Sequence[str], chat: bool
) -> tuple[str, str, list[int], int, bool]:
    """Content, reasoning, ids of the tokens returned, their count, and whether a stop string ended it."""
    splitter = ChannelSplitter(False) if chat else None
    assembly = TextAssembly(text_model.tokenizer, tuple(stops), splitter)
    deltas: list[Delta] = []
    for start, end in pairwise([0, *sorted(cuts), len(ids)]):
        deltas.append(assembly.push([Token(i) for i in ids[start:end]]))
        if assembly.is_stopped:
            break
    deltas.append(assembly.finish())
    tokens = [placed.token.id for delta in deltas for placed in delta.tokens]
    return (
        "".join(delta.content for delta in deltas),
        "".join(delta.reasoning for delta in deltas),
        tokens,
        assembly.num_tokens,
        assembly.is_stopped,
    )


def encode(text_model: TextModel, text: str) -> list[int]:
    return text_model.tokenizer.encode(text, add_special=False, parse_special=False)


@settings(max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_cuts_do_not_matter(text_model: TextModel, data: st.DataObject) -> None:
    """One token a step or all in one: text, token list and count are the same."""
    text = "".join(data.draw(st.lists(st.sampled_from(PIECES), max_size=12)))
    ids = encode(text_model, text)
    cuts = data.draw(st.lists(st.integers(0, len(ids)), max_size=6))
    stops = data.draw(st.lists(st.sampled_from(["STOP", "END", "x"]), max_size=2))
    chat = data.draw(st.booleans())
    whole = run(text_model, ids, [], stops, chat)
    assert run(text_model, ids, cuts, stops, chat) == whole
    assert run(text_model, ids, range(len(ids)), stops, chat) == whole


@settings(max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_tokens_are_those_of_the_text(text_model: TextModel, data: st.DataObject) -> None:
    """D3: the shortest run of tokens from the start whose text holds the text returned."""
    text = "".join(data.draw(st.lists(st.sampled_from(PIECES), max_size=12)))
    stops = data.draw(st.lists(st.sampled_from(["STOP", "END", "x"]), max_size=2))
    ids = encode(text_model, text)
    content, _, tokens, count, stopped = run(text_model, ids, [], stops, chat=False)
    ends = [text.find(stop) for stop in stops if stop in text]
    assert stopped == bool(ends)
    assert content == (text[: min(ends)] if ends else text)
    assert count == len(tokens)
    assert tokens == ids[: len(tokens)]
    decode = text_model.tokenizer.decode
    assert decode(tokens).startswith(content)
    if tokens and ends:
        assert not decode(tokens[:-1]).startswith(content)
    if not ends:
        assert tokens == ids


def test_end_ids_are_neither_text_nor_counted(text_model: TextModel) -> None:
    end_id = next(iter(text_model.tokenizer.end_ids))
    ids = [*encode(text_model, "ab"), end_id]
    assert run(text_model, ids, [], [], chat=True) == ("ab", "", ids[:-1], 2, False)


def test_half_a_character_at_the_end_becomes_a_mark(text_model: TextModel) -> None:
    """The limit fell inside a character: it is shown as U+FFFD, and its tokens are counted."""
    ids = encode(text_model, "a🙂")[:-1]
    content, _, tokens, count, _ = run(text_model, ids, [], [], chat=True)
    assert content == "a\ufffd"
    assert tokens == ids
    assert count == len(ids)


@pytest.mark.parametrize(
    ("text", "content", "reasoning"),
    [
        ("<think>a</think>b", "b", "a"),
        ("<think>a", "", "a"),
        ("a<think>b</think>", "a<think>b</think>", ""),
        ("<thin", "<thin", ""),
    ],
)
def test_channels(text_model: TextModel, text: str, content: str, reasoning: str) -> None:
    found = run(text_model, encode(text_model, text), [], [], chat=True)
    assert found[:2] == (content, reasoning)


def test_nothing_is_put_out_twice_after_a_stop(text_model: TextModel) -> None:
    assembly = TextAssembly(text_model.tokenizer, ("STOP",), None)
    first = assembly.push([Token(i) for i in encode(text_model, "abSTOPcd")])
    assert first.content == "ab"
    assert not assembly.push([Token(i) for i in encode(text_model, "ef")])
    assert not assembly.finish()
    assert assembly.num_tokens == 2


def test_tokens_after_a_stop_string_are_counted_apart(text_model: TextModel) -> None:
    """D3: they come in the same step as the string, and make up no text."""
    ids = text_model.encode_chat("a STOP the the")
    assembly = TextAssembly(text_model.tokenizer, ("STOP",), None)
    assembly.push([Token(each) for each in ids])
    assert assembly.is_stopped
    assert assembly.num_dropped == 2
    assembly.push([Token(ids[0])])
    assert assembly.num_dropped == 3
