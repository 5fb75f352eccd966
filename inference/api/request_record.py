"""What became of one generation request, and the last thousand of them by id.

Owns counts, times and outcomes; never a word of a prompt or an answer. Knows nothing about how
they are shown.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import OrderedDict
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING

from inference.api import metrics
from inference.api.errors import translate
from inference.engine.params import Progress, Usage

if TYPE_CHECKING:
    from prometheus_client import Histogram

    from inference.engine.admission import Admission
    from inference.engine.stream import TokenStream

logger = logging.getLogger(__name__)

MAX_RECORDS = 1000
_NO_PROGRESS = Progress(None, None, None, 0, 0, 0, 0)


class ChoiceRecord:
    """One sequence of a request. What ends neither well nor with an error was left by its client."""

    def __init__(self, request: RequestRecord) -> None:
        self._request = request
        self._stream: TokenStream | None = None
        self._last_tokens_at_s: float | None = None
        self._usage = Usage(0, 0, 0)
        self._progress = _NO_PROGRESS
        self.admission: Admission | None = None  # until it is accepted, and if it never is
        self.finish_reason: str | None = None  # while it runs

    @property
    def usage(self) -> Usage:
        """So far, or in the end."""
        return self._usage if self._stream is None else self._stream.usage

    @property
    def progress(self) -> Progress:
        """So far, or in the end."""
        return self._progress if self._stream is None else self._stream.progress

    def __enter__(self) -> ChoiceRecord:
        return self

    def __exit__(self, _type: object, error: BaseException | None, _traceback: object) -> None:
        """An exception is a failure; a cancellation, or being dropped, is a client that left."""
        if isinstance(error, Exception):
            self.finish_reason = "error"
            self._request.error = translate(error).code

    def submitted(self, stream: TokenStream) -> None:
        self._stream, self.admission = stream, stream.admission

    def took_tokens(self) -> None:
        """Its client's view took what had come since the last time."""
        now_s = time.monotonic()
        if self._last_tokens_at_s is None:
            self._request.first_token(now_s)
        else:
            gap_s = now_s - self._last_tokens_at_s
            self._request.gaps.observe(gap_s)
        self._last_tokens_at_s = now_s

    def ended(self, finish_reason: str) -> None:
        self.finish_reason = finish_reason

    def settle(self) -> None:
        """Take the final counts, and let go of the stream."""
        self._usage, self._progress, self._stream = self.usage, self.progress, None
        if self.finish_reason is None:
            self.finish_reason = "aborted"
        metrics.REQUESTS_FINISHED.labels(*self._request.labels, self.finish_reason).inc()


@dataclass(eq=False)
class RequestRecord:
    """Kept from when a request has its replica. `error` is the code of what ended it, if anything did.

    num_dropped_messages: left out of its conversation, which was too long.
    started_s: by the monotonic clock, when its body had arrived and before it was read.
    """

    request_id: str
    completion_id: str
    route: str
    tenant: str
    model: str
    replica_id: str
    is_stream: bool
    started_s: float
    num_dropped_messages: int = 0
    choices: list[ChoiceRecord] = field(default_factory=list)
    ttft_s: float | None = None
    duration_s: float | None = None
    error: str = ""

    @property
    def started_unix_s(self) -> float:
        return time.time() - (time.monotonic() - self.started_s)

    @cached_property
    def gaps(self) -> Histogram:
        """Found once: finding it takes longer than giving it a token's time."""
        return metrics.INTER_TOKEN_S.labels(*self.labels)

    @property
    def labels(self) -> tuple[str, str]:
        return self.model, self.replica_id

    @property
    def finish_reasons(self) -> tuple[str | None, ...]:
        return tuple(each.finish_reason for each in self.choices)

    @property
    def usage(self) -> Usage:
        usages = [each.usage for each in self.choices]
        return Usage(
            sum(each.num_prompt_tokens for each in usages),
            sum(each.num_cached_tokens for each in usages),
            sum(each.num_output_tokens for each in usages),
        )

    def begin_choice(self) -> ChoiceRecord:
        choice = ChoiceRecord(self)
        self.choices.append(choice)
        return choice

    def first_token(self, now_s: float) -> None:
        if self.ttft_s is None:
            self.ttft_s = now_s - self.started_s
            metrics.TTFT_S.labels(*self.labels).observe(self.ttft_s)

    def end(self) -> None:
        """The request is over, however it ended."""
        self.duration_s = time.monotonic() - self.started_s
        for each in self.choices:
            each.settle()
        metrics.DURATION_S.labels(*self.labels).observe(self.duration_s)
        usage = self.usage
        logger.info(
            "request %s on %s (%s): %d prompt tokens (%d cached), %d completion tokens, %s,"
            " first token after %s s, %.3f s in all",
            self.request_id,
            self.model,
            self.replica_id,
            usage.num_prompt_tokens,
            usage.num_cached_tokens,
            usage.num_output_tokens,
            self.error or ", ".join(sorted({str(each) for each in self.finish_reasons})),
            "no" if self.ttft_s is None else f"{self.ttft_s:.3f}",
            self.duration_s,
        )


class RecordRing:
    """The newest records by tenant and request id, so that no tenant hides or finds another's."""

    def __init__(self, max_len: int) -> None:
        self._max_len = max_len
        self._lock = threading.Lock()
        self._records: OrderedDict[tuple[str, str], RequestRecord] = OrderedDict()

    def add(self, record: RequestRecord) -> None:
        with self._lock:
            key = (record.tenant, record.request_id)
            self._records.pop(key, None)
            self._records[key] = record
            while len(self._records) > self._max_len:
                self._records.popitem(last=False)

    def find(self, request_id: str, tenant: str | None) -> RequestRecord | None:
        """Of one tenant; None for any, the newest first."""
        with self._lock:
            if tenant is not None:
                return self._records.get((tenant, request_id))
            newest_first = reversed(self._records.items())
            return next((r for (_, each), r in newest_first if each == request_id), None)


RECORDS = RecordRing(MAX_RECORDS)
