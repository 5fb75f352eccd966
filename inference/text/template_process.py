"""Renders a chat template in a process of its own, which may be killed.

minijinja counts steps, but a template of a hundred characters can still hang it, exhaust memory or
overflow the stack (compare two lists that each hold the one before twice, forty deep). In this process
that would end the server. Owns the other process and its limits; `template_worker` is its program.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import subprocess
import sys
import threading
import time
import weakref
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import minijinja

from inference.text import template_worker
from inference.text.errors import TemplateError, TemplateLimitExceeded
from inference.text.template_worker import LENGTH

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime

# Processor time is what is limited; waiting this long means the process is stuck.
_WAIT_S = 20.0
MAX_SOURCE_LEN = 1 << 17
_MAX_ANSWER_BYTES = 64 << 20
_MINIJINJA_PATH = str(Path(minijinja.__file__).parents[1])


@dataclass(frozen=True)
class RenderLimits:
    """Of one rendering. fuel: minijinja's measure of steps and bytes, which gives the better message."""

    fuel: int
    cpu_s: float
    memory_bytes: int


_COMPILE_LIMITS = RenderLimits(fuel=0, cpu_s=0.08, memory_bytes=64 << 20)


class TemplateProcess:
    """One template's process: started when made, and again after a rendering that ended it.

    Thread-safe; one rendering at a time. The process ends when this object does.
    """

    def __init__(self, source: str) -> None:
        """Raises: TemplateError, when the source is too long or cannot be compiled."""
        if len(source) > MAX_SOURCE_LEN:
            raise TemplateError(
                f"It has {len(source)} characters; at most {MAX_SOURCE_LEN} are compiled."
            )
        self._source = source
        self._lock = threading.Lock()
        self._process = self._start()

    def render(self, context: Mapping[str, Any], now: datetime, limits: RenderLimits) -> str:
        """Raises: TemplateError, when the template refuses, fails or exceeds its limits."""
        request = {"context": context, "now": now.isoformat(), "limits": asdict(limits)}
        with self._lock:
            if self._process.poll() is not None:
                self._finalizer()
                self._process = self._start()
            return _ask(self._process, request)

    def _start(self) -> subprocess.Popen[bytes]:
        # -I -S: neither the environment nor site-packages can add code to it; minijinja's place is told.
        process = subprocess.Popen(
            [sys.executable, "-I", "-S", template_worker.__file__, _MINIJINJA_PATH],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        self._finalizer = weakref.finalize(self, _end, process)
        _ask(process, {"source": self._source, "limits": asdict(_COMPILE_LIMITS)})
        return process


def _ask(process: subprocess.Popen[bytes], request: Mapping[str, object]) -> str:
    """Send one frame and wait for its answer. Ends the process unless it answers in good order."""
    try:
        payload = json.dumps(request).encode()
    except (TypeError, ValueError, RecursionError) as error:
        raise TemplateError(f"The conversation is no plain JSON: {error}.") from error
    try:
        answer = json.loads(_exchange(process, LENGTH.pack(len(payload)) + payload))
    except BaseException as error:
        # Whatever happened, the next question would get this one's answer.
        _end(process)
        if isinstance(error, OSError | EOFError):
            raise TemplateLimitExceeded from error
        raise
    if answer.get("out_of_fuel"):
        raise TemplateLimitExceeded
    if "error" in answer:
        raise TemplateError(answer["error"])
    text: str = answer["text"]
    return text


def _exchange(process: subprocess.Popen[bytes], frame: bytes) -> bytes:
    """Raises: OSError, EOFError, when the process ends, is stuck or answers too much."""
    requests, answers = process.stdin, process.stdout
    if requests is None or answers is None:
        raise EOFError
    requests.write(frame)
    requests.flush()
    deadline_s = time.monotonic() + _WAIT_S
    (num_bytes,) = LENGTH.unpack(_read(answers.fileno(), LENGTH.size, deadline_s))
    if num_bytes > _MAX_ANSWER_BYTES:
        raise EOFError
    return _read(answers.fileno(), num_bytes, deadline_s)


def _read(fd: int, num_bytes: int, deadline_s: float) -> bytes:
    poll = select.poll()
    poll.register(fd, select.POLLIN)
    data = bytearray()
    while len(data) < num_bytes:
        if not poll.poll(max(0.0, deadline_s - time.monotonic()) * 1e3):
            raise TimeoutError
        received = os.read(fd, num_bytes - len(data))
        if not received:
            raise EOFError
        data += received
    return bytes(data)


def _end(process: subprocess.Popen[bytes]) -> None:
    """Kill the process, wait for it and close its pipes. Safe to call twice."""
    process.kill()
    process.wait()
    for pipe in (process.stdin, process.stdout):
        if pipe is not None:
            # Closing writes what is left in the buffer, to nobody.
            with contextlib.suppress(OSError):
                pipe.close()
