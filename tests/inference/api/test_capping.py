"""S36: a conversation too long for its model goes on without its oldest turns, and says so."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from inference.api.capping import MAX_TRIES, Rendered, without_oldest_turns
from inference.engine.params import SequenceRequest
from tests.fakes.runtime import CONTEXT_LEN, FakeServing
from tests.inference.api.wire import Answer, Wire

CHAT = "/v1/chat/completions"
SYSTEM = {"role": "system", "content": "Be brief."}


def turn(number: int, num_words: int = 30) -> list[dict[str, str]]:
    """About 2.5 tokens a word of the tiny vocabulary."""
    return [
        {"role": "user", "content": f"q{number} " + "the " * num_words},
        {"role": "assistant", "content": f"a{number}"},
    ]


def conversation(num_turns: int) -> list[dict[str, str]]:
    turns = [message for number in range(num_turns) for message in turn(number)]
    return [SYSTEM, *turns, {"role": "user", "content": "last"}]


@pytest.fixture
def submitted(serving: FakeServing, monkeypatch: pytest.MonkeyPatch) -> list[SequenceRequest]:
    seen: list[SequenceRequest] = []
    (replica,) = serving.runtime.replicas()
    submit = replica.worker.submit
    monkeypatch.setattr(replica.worker, "submit", lambda r: seen.append(r) or submit(r))
    return seen


def prompt_text(serving: FakeServing, sequence: SequenceRequest) -> str:
    return serving.text.tokenizer.decode(sequence.prompt_ids, special=True)


def ask(wire: Wire, messages: list[dict[str, Any]], **fields: object) -> Answer:
    return wire.post(CHAT, {"messages": messages, **fields})


def record_of(wire: Wire, answer: Answer) -> dict[str, Any]:
    record: dict[str, Any] = wire.get(f"/v1/requests/{answer.headers['x-request-id']}").json
    return record


def test_the_oldest_turns_are_left_out_and_the_answer_says_so(
    wire: Wire, serving: FakeServing, submitted: list[SequenceRequest]
) -> None:
    serving.say("yes")
    answer = ask(wire, conversation(40))
    assert answer.status == 200
    assert answer.json["context_capped"] is True
    assert answer.json["choices"][0]["message"]["content"] == "yes"
    (sequence,) = submitted
    text = prompt_text(serving, sequence)
    assert text.startswith("<|im_start|>system\nBe brief.<|im_end|>\n<|im_start|>user\nq")
    assert text.endswith("a39<|im_end|>\n<|im_start|>user\nlast<|im_end|>\n<|im_start|>assistant\n")
    num_left = text.count("<|im_start|>user\nq")
    assert f"q{39 - num_left} " not in text
    assert f"q{40 - num_left} " in text
    assert len(sequence.prompt_ids) + sequence.max_tokens == CONTEXT_LEN
    assert sequence.max_tokens >= CONTEXT_LEN // 8, "room for an answer is kept"
    record = record_of(wire, answer)
    assert (record["context_capped"], record["dropped_messages"]) == (True, 2 * (40 - num_left))


def test_no_more_turns_go_than_must(
    wire: Wire, serving: FakeServing, submitted: list[SequenceRequest]
) -> None:
    serving.say("yes")
    ask(wire, conversation(40), max_tokens=100)
    (sequence,) = submitted
    num_tokens = len(sequence.prompt_ids)
    one_turn = len(serving.text.encode_chat(turn(1)[0]["content"])) + 30
    assert CONTEXT_LEN - 100 - one_turn < num_tokens <= CONTEXT_LEN - 100


def test_what_fits_is_left_alone(
    wire: Wire, serving: FakeServing, submitted: list[SequenceRequest]
) -> None:
    serving.say("yes")
    answer = ask(wire, conversation(2))
    assert "context_capped" not in answer.json
    assert "q0 " in prompt_text(serving, submitted[0])
    record = record_of(wire, answer)
    assert (record["context_capped"], record["dropped_messages"]) == (False, 0)


def test_the_wanted_length_of_the_answer_counts(wire: Wire, serving: FakeServing) -> None:
    serving.say("yes")
    messages = conversation(4)
    assert "context_capped" not in ask(wire, messages, max_tokens=10).json
    assert ask(wire, messages, max_tokens=CONTEXT_LEN - 80).json["context_capped"] is True


def test_every_chunk_of_a_stream_says_so(wire: Wire, serving: FakeServing) -> None:
    serving.say("well yes")
    chunks = ask(wire, conversation(40), stream=True).chunks
    assert len(chunks) > 2
    assert all(chunk["context_capped"] is True for chunk in chunks)
    assert all("context_capped" not in c for c in ask(wire, conversation(1), stream=True).chunks)


def test_a_capped_turn_takes_no_part_in_the_prefix_cache(
    wire: Wire, serving: FakeServing, submitted: list[SequenceRequest]
) -> None:
    serving.say("yes")
    for _ in range(2):
        answer = ask(wire, conversation(40))
        assert answer.json["usage"]["prompt_tokens_details"] == {"cached_tokens": 0}
    (replica,) = serving.runtime.replicas()
    assert replica.worker.stats().num_pages_cached == 0
    assert [each.use_prefix_cache for each in submitted] == [False, False]
    ask(wire, conversation(2))
    assert replica.worker.stats().num_pages_cached > 0


@pytest.mark.parametrize("stream", [False, True])
def test_what_can_never_fit_is_refused_with_the_numbers(
    wire: Wire, serving: FakeServing, stream: bool
) -> None:
    messages = [*conversation(5)[:-1], {"role": "user", "content": "the " * 600}]
    answer = ask(wire, messages, max_tokens=20, stream=stream)
    assert answer.status == 400
    error = answer.error
    assert error["code"] == "context_length_exceeded"
    assert "maximum context length is 512 tokens" in error["message"]
    assert "in the prompt without its older turns, 20 for the completion" in error["message"]
    assert serving.num_busy() == 0


def test_a_long_system_message_alone_is_refused(wire: Wire) -> None:
    messages = [{"role": "system", "content": "the " * 600}, *conversation(3)[1:]]
    answer = ask(wire, messages)
    assert (answer.status, answer.error["code"]) == (400, "context_length_exceeded")


def test_an_answer_longer_than_the_context_is_refused(wire: Wire) -> None:
    answer = ask(wire, conversation(3), max_tokens=CONTEXT_LEN)
    assert (answer.status, answer.error["code"]) == (400, "context_length_exceeded")


def test_clients_that_cut_by_themselves_get_the_error(wire: Wire) -> None:
    answer = ask(wire, conversation(40), truncation="disabled")
    assert (answer.status, answer.error["code"]) == (400, "context_length_exceeded")
    assert "in the prompt," in answer.error["message"]
    refused = ask(wire, conversation(1), truncation="left")
    assert (refused.status, refused.error["param"]) == (400, "truncation")


def test_a_prompt_without_turns_is_never_cut(wire: Wire) -> None:
    answer = wire.complete("the " * 600)
    assert (answer.status, answer.error["code"]) == (400, "context_length_exceeded")
    answer = wire.complete("Hi", truncation="auto")
    assert (answer.status, answer.error["code"]) == (400, "unsupported_parameter")


def test_a_little_room_for_the_answer_is_enough_when_there_is_no_turn_to_leave_out(
    wire: Wire, serving: FakeServing, submitted: list[SequenceRequest]
) -> None:
    serving.say("yes")
    ids = serving.text.encode_chat("the " * 30)
    content = "the " * int(30 * (CONTEXT_LEN - 40) / len(ids))
    answer = ask(wire, [{"role": "user", "content": content}])
    assert answer.status == 200
    assert "context_capped" not in answer.json
    assert 0 < submitted[0].max_tokens < CONTEXT_LEN // 8


# Which turns go, with one token a character of content and ten a message.


def fake_render(messages: Any) -> Rendered:
    return Rendered(
        str([m["content"][:1] for m in messages]),
        tuple(range(sum(10 + len(m["content"]) for m in messages))),
    )


MESSAGES = st.lists(
    st.tuples(st.sampled_from(["user", "user", "assistant", "tool"]), st.integers(0, 300)),
    min_size=1,
    max_size=60,
)


@given(num_leading=st.integers(0, 2), made=MESSAGES, limit=st.integers(1, 2000))
def test_whole_turns_go_from_the_front_and_only_as_many_as_needed(
    num_leading: int, made: list[tuple[str, int]], limit: int
) -> None:
    messages = [{"role": "system", "content": "s"}] * num_leading
    messages += [{"role": role, "content": "x" * length} for role, length in made]
    whole = fake_render(messages)
    tries: list[Any] = []

    def render(some: Any) -> Rendered:
        tries.append(some)
        return fake_render(some)

    if len(whole.ids) <= limit:
        return
    capped = without_oldest_turns(messages, whole, limit, render)
    assert len(tries) <= MAX_TRIES + 1
    users = [
        i
        for i, m in enumerate(messages)
        if i > num_leading and m["role"] == "user" and messages[i - 1]["role"] != "user"
    ]
    if not users:
        assert capped is whole
        return
    assert num_leading + capped.num_dropped in users
    left = [*messages[:num_leading], *messages[num_leading + capped.num_dropped :]]
    assert capped.ids == fake_render(left).ids
    if len(capped.ids) > limit:
        assert num_leading + capped.num_dropped == users[-1], "nothing more may go"


def test_few_tries_find_the_fewest_turns_of_a_long_conversation() -> None:
    messages = [
        {"role": role, "content": "x" * (1 + (7 * i) % 40)}
        for i in range(2000)
        for role in ("user", "assistant")
    ]
    tries = []

    def render(some: Any) -> Rendered:
        tries.append(len(some))
        return fake_render(some)

    capped = without_oldest_turns(messages, fake_render(messages), 5000, render)
    one_less = messages[capped.num_dropped - 2 :]
    assert len(capped.ids) <= 5000 < len(fake_render(one_less).ids)
    assert len(tries) <= MAX_TRIES
    assert sum(tries[1:]) < 1000, "what will not fit anyway is hardly rendered again"
