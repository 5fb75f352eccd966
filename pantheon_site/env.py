"""The one environ schema: every environment variable, its type, default, unit and meaning.

Owns reading and checking the environment; nothing else in the project looks at it. Variables of the
first implementation keep their names as aliases; where both are set, ours wins.
"""

from __future__ import annotations

import difflib
import math
import os
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from django.core.exceptions import ImproperlyConfigured

ROOT = Path(__file__).resolve().parent.parent
OUR_PREFIX = "PANTHEON_"


class BadSetting(ImproperlyConfigured):
    """`name` is what holds it: a variable, or a line of a file."""

    def __init__(self, name: str, why: str) -> None:
        self.name, self.why = name, why
        super().__init__(f"{name} {why}.")


def _boolean(text: str) -> bool:
    if text.lower() in {"1", "true", "yes", "on"}:
        return True
    if text.lower() in {"0", "false", "no", "off", ""}:
        return False
    raise ValueError("must be 1 or 0 (also true/false, yes/no, on/off)")


def _words(text: str) -> list[str]:
    return [word.strip() for word in text.split(",") if word.strip()]


def _folder(text: str) -> Path:
    return Path(text).expanduser().resolve()


def _folders(text: str) -> list[Path]:
    return [_folder(part) for part in text.split(":") if part]


def _integer(low: int, high: int) -> Callable[[str], int]:
    def parse(text: str) -> int:
        try:
            value = int(text)
        except ValueError:
            value = low - 1
        if not low <= value <= high:
            raise ValueError(f"must be a whole number between {low} and {high}")
        return value

    return parse


def _number(low: float, high: float) -> Callable[[str], float]:
    def parse(text: str) -> float:
        try:
            value = float(text)
        except ValueError:
            value = math.nan
        if not low <= value <= high:
            raise ValueError(f"must be a number between {low:g} and {high:g}")
        return value

    return parse


def _one_of(*choices: str) -> Callable[[str], str]:
    def parse(text: str) -> str:
        if text not in choices:
            raise ValueError(f"must be one of {', '.join(c or '(empty)' for c in choices)}")
        return text

    return parse


@dataclass(frozen=True)
class Setting:
    """One variable. `default` is the text that would be set; `aliases` are older names of it.

    only: it is accepted, and this is all it can mean here; another value gets a warning.
    """

    name: str
    parse: Callable[[str], Any]
    default: str
    help: str
    aliases: tuple[str, ...] = ()
    only: object = None


SETTINGS: tuple[Setting, ...] = (
    Setting(
        "DJANGO_SECRET_KEY",
        str,
        "",
        "Django's secret; empty: made once and kept in the data folder.",
    ),
    Setting("DJANGO_DEBUG", _boolean, "0", "Django's debug pages; never on a reachable host."),
    Setting(
        "DJANGO_ALLOWED_HOSTS",
        _words,
        "localhost,127.0.0.1,[::1]",
        "Host names this server answers to, separated by commas.",
    ),
    Setting(
        "DJANGO_CSRF_TRUSTED_ORIGINS",
        _words,
        "",
        "Origins (https://host) whose admin forms are trusted behind a TLS proxy, separated by commas.",
    ),
    Setting(
        "DJANGO_HTTPS",
        _boolean,
        "0",
        "1: a TLS proxy that sets X-Forwarded-Proto is the only way here; the admin site insists on https.",
    ),
    Setting(
        "DJANGO_LOG_LEVEL",
        _one_of("DEBUG", "INFO", "WARNING", "ERROR"),
        "INFO",
        "Least severe log record that is printed: DEBUG, INFO, WARNING or ERROR.",
    ),
    Setting(
        "PANTHEON_DATA_DIR",
        _folder,
        str(ROOT / "var"),
        "Folder of the database, pulled models and the generated secret.",
    ),
    Setting(
        "PANTHEON_MODEL_DIRS",
        _folders,
        "",
        "Folders model files may be loaded from, separated by colons, besides the data folder.",
    ),
    Setting(
        "PANTHEON_KERNEL_CACHE_DIR",
        _folder,
        "~/.cache/pantheon/kernels",
        "Folder of compiled kernels.",
    ),
    Setting(
        "PANTHEON_BACKEND",
        _one_of("auto", "cpu", "reference"),
        "auto",
        "What runs models: auto (dies where the host has any, else the CPU), cpu, or reference (slow"
        " NumPy, for checking).",
    ),
    Setting(
        "PANTHEON_DIE_RESERVE_BYTES",
        _integer(0, 1 << 40),
        str(1 << 30),
        "Bytes of each die that are never given to models: for the driver, contexts and other processes.",
        aliases=("PN_DIE_RESERVE_BYTES",),
    ),
    Setting(
        "PANTHEON_EMULATED_DIES",
        _integer(0, 16),
        "0",
        "Emulated K80 dies to use in place of the host's own, for trying things out; models run very"
        " slowly on them.",
    ),
    Setting(
        "PANTHEON_CPU_THREADS",
        _integer(0, 256),
        "0",
        "Compute threads of a replica; 0: one a core.",
    ),
    Setting(
        "PANTHEON_CPU_ISA",
        _one_of("", "amx", "avx512vnni", "avxvnni", "avx2", "ssse3", "generic"),
        "",
        "Force a kernel path: amx, avx512vnni, avxvnni, avx2, ssse3 or generic; empty: this host's best.",
    ),
    Setting(
        "PANTHEON_BATCH_SLOTS",
        _integer(0, 32),
        "8",
        "Sequences a replica runs at once; 0: one at a time, and a second request is answered 429.",
    ),
    Setting(
        "PANTHEON_CONTEXT_LEN",
        _integer(0, 1 << 20),
        "0",
        "Longest sequence in tokens; 0: what the model was trained for, at most 8192.",
    ),
    Setting(
        "PANTHEON_KV_TOKENS",
        _integer(0, 1 << 24),
        "0",
        "Positions of KV memory a replica shares among its slots; 0: twice the context length.",
    ),
    Setting(
        "PANTHEON_KV_TYPE",
        _one_of("f16", "f32", "q8_0", "q4_0"),
        "f16",
        "How keys and values are kept: f16; f32 (twice the memory) without rounding; q8_0 (half the memory)"
        " or q4_0 (a quarter) at some loss.",
    ),
    Setting(
        "PANTHEON_PREFILL_CHUNK",
        _integer(1, 4096),
        "128",
        "Prompt tokens per step; one chunk is the longest a decoding stream waits.",
        aliases=("QWEN35_BS_PREFILL_CHUNK",),
    ),
    Setting(
        "PANTHEON_PREFIX_CACHE",
        _boolean,
        "1",
        "0: compute every prompt from its first token, even when its beginning is known.",
    ),
    Setting(
        "PANTHEON_QUEUE_DEPTH",
        _integer(0, 10_000),
        "32",
        "Requests that may wait for a slot; more are answered 429.",
        aliases=("BS_QUEUE_DEPTH",),
    ),
    Setting(
        "PANTHEON_QUEUE_WAIT_S",
        _number(0.0, 3600.0),
        "30",
        "Seconds a request waits for a slot before it is answered 429.",
    ),
    Setting(
        "PANTHEON_STEP_STATS",
        _boolean,
        "0",
        "1: a line on stderr for each step of a model, with its rows and times.",
        aliases=("QWEN35_BS_STATS",),
    ),
    Setting(
        "PANTHEON_DRAIN_S",
        _number(0.0, 86_400.0),
        "120",
        "Seconds an unload waits for running requests before it ends them.",
    ),
    Setting(
        "PANTHEON_STRICT_MODEL",
        _boolean,
        "0",
        "1: a request must name a loaded model even when only one is loaded.",
    ),
    Setting(
        "PANTHEON_MAX_BODY_BYTES",
        _integer(1024, 1 << 30),
        str(8 << 20),
        "Largest request body, in bytes; larger ones are answered 413.",
    ),
    Setting(
        "PANTHEON_MAX_CONNECTIONS",
        _integer(1, 100_000),
        "2048",
        "Connections `serve` holds at once; more are answered 503.",
    ),
    Setting(
        "PANTHEON_SHUTDOWN_S",
        _number(0.0, 3600.0),
        "30",
        "Seconds a stopping `serve` lets running requests finish before it ends them with an error.",
    ),
    Setting(
        "PANTHEON_REQUIRE_API_KEY",
        _boolean,
        "0",
        "1: the inference API needs a key even on loopback. The control API always needs one.",
    ),
    Setting(
        "QWEN35_BATCH_SLOTS",
        _boolean,
        "1",
        "0: the same as PANTHEON_BATCH_SLOTS=0, which wins where both are set.",
    ),
    Setting(
        "QWEN35_BS_PREFILL_BATCH",
        _boolean,
        "1",
        "0: prompts are read token by token, whatever PANTHEON_PREFILL_CHUNK says.",
    ),
    Setting(
        "QWEN35_GPU_FULL_LOGITS",
        str,
        "",
        "Refused at start: it would copy every logit over the slow link at each step.",
    ),
    Setting(
        "QWEN35_BS_DRIVER_SAMPLE",
        _boolean,
        "1",
        "Accepted without effect: tokens are always chosen by the worker, never by the request.",
        only=True,
    ),
    Setting(
        "QWEN35_KV_Q4",
        _boolean,
        "0",
        "Accepted without effect: PANTHEON_KV_TYPE=q4_0 keeps KV pages in 4 bits.",
        only=False,
    ),
    Setting(
        "PN_ASYNC_POLL_US",
        _integer(1, 1_000_000),
        "500",
        "Accepted without effect: the CPU's steps are waited for, not polled.",
        only=500,
    ),
)


def read(environ: Mapping[str, str]) -> dict[str, Any]:
    """Values by name. Raises: BadSetting, naming the variable, its value and what it may be."""
    values = {}
    for setting in SETTINGS:
        names = (setting.name, *setting.aliases)
        # Set to nothing is not set: that is what an emptied line of a .env file means.
        name = next((n for n in names if environ.get(n)), setting.name)
        text = environ.get(name) or setting.default
        try:
            values[setting.name] = setting.parse(text)
        except ValueError as error:
            raise BadSetting(name, f"is {text!r}; it {error}") from error
    if not values["QWEN35_BATCH_SLOTS"] and not environ.get("PANTHEON_BATCH_SLOTS"):
        values["PANTHEON_BATCH_SLOTS"] = 0
    if not values["QWEN35_BS_PREFILL_BATCH"]:
        values["PANTHEON_PREFILL_CHUNK"] = 1
    if values["QWEN35_GPU_FULL_LOGITS"]:
        raise BadSetting(
            "QWEN35_GPU_FULL_LOGITS",
            "is set. It would copy all logits to the host at every step, so Pantheon does not start"
            " with it; unset it",
        )
    return values


def without_effect(environ: Mapping[str, str]) -> dict[str, str]:
    """Accepted variables that are set to what cannot be had here, with what they say about it."""
    return {
        s.name: s.help
        for s in SETTINGS
        if s.only is not None and environ.get(s.name) and s.parse(environ[s.name]) != s.only
    }


def unknown_names(environ: Mapping[str, str]) -> dict[str, str]:
    """Variables that look like ours but are not, with the closest one that is, or "" when none is close."""
    known = {setting.name for setting in SETTINGS}
    unknown = sorted(n for n in environ if n.startswith(OUR_PREFIX) and n not in known)
    return {
        name: next(iter(difflib.get_close_matches(name, known, n=1, cutoff=0.8)), "")
        for name in unknown
    }


def load_env_file(path: Path, environ: dict[str, str]) -> None:
    """Add NAME=value lines of a .env file that `environ` does not have yet. Raises: BadSetting."""
    for number, line in enumerate(path.read_text().splitlines(), 1):
        line = line.strip()
        if not line or line.startswith("#"):
            continue
        name, equals, value = line.partition("=")
        if not equals:
            raise BadSetting(f"{path}, line {number},", "is not of the form NAME=value")
        environ.setdefault(name.strip(), value.strip())


def environment() -> dict[str, str]:
    """The process environment over the checkout's .env file, where there is one."""
    environ = dict(os.environ)
    env_file = ROOT / ".env"
    # The test run must not depend on an operator's file.
    if env_file.is_file() and "pytest" not in sys.modules:
        load_env_file(env_file, environ)
    return environ
