"""Patterns of the names the control plane accepts, shared by the services and the database constraints."""

from __future__ import annotations

import re
import uuid

# \Z and not $: a $ would let a trailing line feed through, in Python as in PostgreSQL.
SERVED_NAME_PATTERN = r"^[\w.:/-]{1,128}\Z"
DIGEST_PATTERN = r"^sha256:[0-9a-f]{64}\Z"
PUBLIC_ID_LEN = 12


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


def new_public_id() -> str:
    """A short id for URLs and logs: 48 random bits, unique in its table by constraint."""
    return uuid.uuid4().hex[:PUBLIC_ID_LEN]
