"""Errors of the engine: refusals at submission. Fields first, message derived."""

from __future__ import annotations


class EngineError(Exception):
    """The engine refused or lost a sequence."""


class ContextExceeded(EngineError):
    """Prompt and output can never fit the replica's context.

    was_capped: the prompt is what is left of a conversation without its older turns.
    """

    def __init__(
        self, num_prompt_tokens: int, max_tokens: int, context_len: int, *, was_capped: bool = False
    ) -> None:
        self.num_prompt_tokens, self.max_tokens, self.context_len = (
            num_prompt_tokens,
            max_tokens,
            context_len,
        )
        self.was_capped = was_capped
        super().__init__(
            f"This model's maximum context length is {context_len} tokens. However, you requested"
            f" {num_prompt_tokens + max_tokens} tokens ({num_prompt_tokens} in the"
            f" {'prompt without its older turns' if was_capped else 'prompt'},"
            f" {max_tokens} for the completion). Please {self._what_helps()}."
        )

    def _what_helps(self) -> str:
        """Shortening the prompt is no use where the completion alone is too much, nor the other way round."""
        shorter = f"shorten {'its instructions or last turn' if self.was_capped else 'the prompt'}"
        room = self.context_len - self.num_prompt_tokens
        is_answer_too_long = self.max_tokens >= self.context_len
        if room < 1:
            return f"{shorter} and lower max_tokens" if is_answer_too_long else shorter
        fewer = f"lower max_tokens to at most {room}"
        return fewer if is_answer_too_long else f"{shorter}, or {fewer}"


class QueueFull(EngineError):
    """Every slot is taken and the queue is full."""

    def __init__(self, queue_depth: int, retry_after_s: int = 5) -> None:
        self.queue_depth, self.retry_after_s = queue_depth, retry_after_s
        super().__init__(
            f"The model is busy and its queue of {_requests(queue_depth)} is full; retry shortly."
            if queue_depth
            else "A generation is already in progress on this model; retry shortly."
        )


class MemoryPressure(EngineError):
    """The host is so short of memory that nobody new is let in, and the queue is full."""

    def __init__(self, queue_depth: int, retry_after_s: int = 5) -> None:
        self.queue_depth, self.retry_after_s = queue_depth, retry_after_s
        super().__init__(
            f"The server is short of memory and its queue of {_requests(queue_depth)} is full;"
            " retry shortly."
        )


class NotEnoughMemory(EngineError):
    """The host has too little memory left for this request."""

    def __init__(self, needed_bytes: int, retry_after_s: int = 5) -> None:
        self.needed_bytes, self.retry_after_s = needed_bytes, retry_after_s
        super().__init__(
            f"This request may need {needed_bytes / 2**20:.0f} MiB of the server's memory, more than"
            " it can spare now; lower max_tokens or top_logprobs, stream the answer, or retry shortly."
        )


class QueueTimeout(EngineError):
    """The sequence waited in the queue for too long."""

    def __init__(self, waited_s: float, retry_after_s: int = 2) -> None:
        self.waited_s, self.retry_after_s = waited_s, retry_after_s
        super().__init__(f"No slot became free within {waited_s:.0f} s; retry shortly.")


class ReplicaClosed(EngineError):
    """The replica is draining, failed or gone."""

    def __init__(self, why: str) -> None:
        self.why = why
        super().__init__(f"The model is not accepting requests: {why}.")


class EmptyPrompt(EngineError):
    """There is no token to start from."""

    def __init__(self) -> None:
        super().__init__("The prompt is empty; give at least one token.")


class NoOutputWanted(EngineError):
    """max_tokens leaves nothing to generate."""

    def __init__(self, max_tokens: int) -> None:
        self.max_tokens = max_tokens
        super().__init__(f"max_tokens is {max_tokens}; it must be at least 1.")


class TokenOutOfVocabulary(EngineError):
    """A token id that the model does not have, in the prompt or in logit_bias."""

    def __init__(self, where: str, token_id: int, vocab_size: int) -> None:
        self.where, self.token_id, self.vocab_size = where, token_id, vocab_size
        super().__init__(
            f"Token id {token_id} in {where} is outside the model's vocabulary;"
            f" ids run from 0 to {vocab_size - 1}."
        )


class SamplingFailed(EngineError):
    """One sequence's logits leave no token to choose. Ends that sequence alone."""

    def __init__(self, why: str) -> None:
        self.why = why
        super().__init__(f"No token could be chosen: {why}.")


class BrokenInvariant(EngineError):
    """The engine's own books are wrong: a bug. The worker fails rather than go on with them."""

    def __init__(self, what: str) -> None:
        self.what = what
        super().__init__(f"Internal error of the engine: {what}.")


def _requests(count: int) -> str:
    return "1 request" if count == 1 else f"{count} requests"
