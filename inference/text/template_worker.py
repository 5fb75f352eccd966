"""The program of the process that renders one chat template: minijinja, dressed as transformers does.

Run as a script by `template_process`, and importing nothing of this project: whatever a hostile template
does here costs this process only. It ends itself when a rendering exceeds its processor time or memory.
Frames on both pipes: four bytes of length, then JSON. Source of the filters and functions: transformers'
documentation, "Writing a chat template".
"""

from __future__ import annotations

import json
import re
import resource
import signal
import struct
import sys
from datetime import datetime
from typing import Any, BinaryIO

if __name__ == "__main__":
    sys.path.append(sys.argv[1])  # where minijinja lies: this process starts without site-packages

import minijinja

LENGTH = struct.Struct(">I")
_NAME = "chat template"
_STRFTIME = re.compile(r"(?:[^%]|%-?[A-Za-z%])*")
_GENERATION = re.compile(r"\{%([-+]?)\s*(end)?generation\s*([-+]?)%\}")
_TOOLS_LOOP = re.compile(r"(\{%[-+]?\s*for\s+\w+\s+in\s+tools)(\s*[-+]?%\})")
_FAILURES = (
    ArithmeticError,
    AttributeError,
    LookupError,
    RecursionError,
    RuntimeError,  # minijinja's own error is one
    TypeError,
    ValueError,
)


class Refused(RuntimeError):
    """The template, or a filter of ours, refuses to go on; the message is for the caller as it is."""


class Renderer:
    """One compiled template. `now` is set before each rendering."""

    def __init__(self, source: str) -> None:
        self.now = datetime.min
        self._environment = minijinja.Environment(
            trim_blocks=True,
            lstrip_blocks=True,
            auto_escape_callback=lambda name: False,
            filters={"tojson": _to_json, "__each_tool": _refuse_none},
            globals={"raise_exception": _raise_exception, "strftime_now": self._strftime_now},
        )
        self._environment.add_template(_NAME, _adapt(source))

    def render(self, context: dict[str, Any], fuel: int) -> str:
        self._environment.fuel = fuel
        text: str = self._environment.render_template(_NAME, **context)
        return text

    def _strftime_now(self, layout: str) -> str:
        # glibc would honour a field width of any size.
        if not _STRFTIME.fullmatch(layout):
            raise Refused("It asks for the time in a layout that is not supported.")
        return self.now.strftime(layout)


def _adapt(source: str) -> str:
    """The source with what minijinja lacks put in its terms.

    `generation` tags mark text for training and mean nothing here. minijinja loops over none as if it
    were empty, where jinja2 refuses: a template that presents tools must not tell a model it has some
    when it has none.
    """
    source = _GENERATION.sub(
        lambda tag: f"{{%{tag[1]} {'endif' if tag[2] else 'if true'} {tag[3]}%}}", source
    )
    return _TOOLS_LOOP.sub(r"\1|__each_tool\2", source)


def _to_json(
    value: object,
    ensure_ascii: bool = False,
    indent: int | str | None = None,
    separators: list[str] | None = None,
    sort_keys: bool = False,
) -> str:
    return json.dumps(
        value,
        ensure_ascii=ensure_ascii,
        indent=indent,
        separators=None if separators is None else (separators[0], separators[1]),
        sort_keys=sort_keys,
    )


def _refuse_none(tools: object) -> object:
    if tools is None:
        raise Refused("It presents tools, and the request has none.")
    return tools


def _raise_exception(message: object) -> None:
    raise Refused(str(message))


def _describe(error: Exception) -> dict[str, object]:
    if isinstance(error, minijinja.TemplateError):
        line = "" if error.line is None else f" (line {error.line})"
        return {
            "error": f"{error.kind}: {error.detail or error.message}{line}",
            "out_of_fuel": error.kind == "OutOfFuel",
        }
    return {"error": str(error)}


def _answer(renderer: Renderer, request: dict[str, Any]) -> dict[str, object]:
    renderer.now = datetime.fromisoformat(request["now"])
    _limit(request["limits"])
    try:
        return {"text": renderer.render(request["context"], request["limits"]["fuel"])}
    except _FAILURES as error:
        return _describe(error)
    finally:
        _lift_limits()


def _limit(limits: dict[str, Any]) -> None:
    """From now on this process has so much processor time and address space; more ends it.

    The signal's default action and a failed allocation end it within native code too.
    """
    _, most = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (limits["memory_bytes"], most))
    signal.setitimer(signal.ITIMER_PROF, limits["cpu_s"])


def _lift_limits() -> None:
    """Between renderings there are none: the next conversation may be a longer one."""
    signal.setitimer(signal.ITIMER_PROF, 0)
    _, most = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (most, most))


def _read_frame(pipe: BinaryIO) -> Any:
    header = pipe.read(LENGTH.size)
    if len(header) < LENGTH.size:
        sys.exit()  # the parent has closed the pipe, or is gone
    return json.loads(pipe.read(*LENGTH.unpack(header)))


def _write_frame(pipe: BinaryIO, value: object) -> None:
    payload = json.dumps(value).encode()
    pipe.write(LENGTH.pack(len(payload)) + payload)
    pipe.flush()


def main() -> None:
    """Compile the template of the first frame, answer it, then render one conversation a frame."""
    requests, answers = sys.stdin.buffer, sys.stdout.buffer
    first = _read_frame(requests)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    _limit(first["limits"])
    try:
        renderer = Renderer(first["source"])
    except _FAILURES as error:
        _write_frame(answers, _describe(error))
        return
    _lift_limits()
    _write_frame(answers, {"text": ""})
    while True:
        _write_frame(answers, _answer(renderer, _read_frame(requests)))


if __name__ == "__main__":
    main()
