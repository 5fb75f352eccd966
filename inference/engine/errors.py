"""Errors of the engine: refusals at submission. Fields first, message derived."""

from __future__ import annotations


class EngineError(Exception):
    """The engine refused or lost a sequence."""


class ContextExceeded(EngineError):
    """Prompt and output can never fit the replica's context."""

    def __init__(self, num_prompt_tokens: int, max_tokens: int, context_len: int) -> None:
        self.num_prompt_tokens, self.max_tokens, self.context_len = (
            num_prompt_tokens,
            max_tokens,
            context_len,
        )
        super().__init__(
            f"This model's maximum context length is {context_len} tokens. However, you requested"
            f" {num_prompt_tokens + max_tokens} tokens ({num_prompt_tokens} in the prompt, {max_tokens} for the"
            " completion). Please shorten the prompt or lower max_tokens."
        )


class QueueFull(EngineError):
    """Every slot is taken and the queue is full."""

    def __init__(self, queue_depth: int, retry_after_s: int = 5) -> None:
        self.queue_depth, self.retry_after_s = queue_depth, retry_after_s
        super().__init__(
            f"The model is busy and its queue of {queue_depth} requests is full; retry shortly."
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
