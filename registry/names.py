"""Patterns of the names the control plane accepts, shared by the services and the database constraints."""

from __future__ import annotations

import re
import uuid

# \Z and not $: a $ would let a trailing line feed through, in Python as in PostgreSQL.
SERVED_NAME_PATTERN = r"^[\w.:/-]{1,128}\Z"
DIGEST_PATTERN = r"^sha256:[0-9a-f]{64}\Z"
PUBLIC_ID_LEN = 12

# How files say what their weights are stored as: -Q4_K_M, .q8_0, -IQ2_XXS, -UD-Q4_K_XL, -f16, .BF16, -MXFP4.
_QUANT_SUFFIX = re.compile(
    r"[-._](ud[-_])?(i?q\d(_[a-z0-9]+)*|tq\d_\d|(bf|fp?)(16|32)|mxfp4(_moe)?)\Z", re.IGNORECASE
)


def is_served_name(text: str) -> bool:
    return re.match(SERVED_NAME_PATTERN, text) is not None


def is_digest(text: str) -> bool:
    return re.match(DIGEST_PATTERN, text) is not None


def printable(text: str) -> str:
    """`text` on one line and safe for a terminal or a log: whatever does not print becomes U+FFFD.

    Names come out of model files; they may hold escape sequences or marks that reverse the text after them.
    """
    flat = " ".join(text.split())
    return "".join(char if char.isprintable() else "\ufffd" for char in flat)


def served_name_of_file(file_name: str, digest: str) -> str:
    """`SmolLM2-135M-Instruct.Q4_1.gguf` -> `smollm2-135m-instruct`; "" when nothing usable is left.

    The start of its own digest, with which a pulled file is told from others of its name, is left out too.
    """
    stem = file_name[: -len(".gguf")] if file_name.lower().endswith(".gguf") else file_name
    stem = _QUANT_SUFFIX.sub("", stem.removesuffix(f"-{digest.removeprefix('sha256:')[:12]}"))
    return re.sub(r"[^\w.-]+", "-", stem.lower()).strip("-._")[:128]


def new_public_id() -> str:
    """A short id for URLs and logs: 48 random bits, unique in its table by constraint."""
    return uuid.uuid4().hex[:PUBLIC_ID_LEN]
