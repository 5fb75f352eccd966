"""Errors of the text layer: vocabularies and chat templates that cannot be used.

Fields first, message derived. Knows nothing about who translates them.
"""

from __future__ import annotations

MAX_REASON_LEN = 500


class TextError(Exception):
    """A model file's vocabulary or template is malformed. `field` is the metadata key."""

    def __init__(self, field: str, reason: str) -> None:
        self.field, self.reason = field, reason
        super().__init__(f"{field}: {reason}.")


class TemplateError(TextError):
    """A chat template cannot be compiled, or refuses the conversation.

    `reason` is its own sentence, fit for a page, a log and a terminal: on one line, and no longer than
    MAX_REASON_LEN; the template is a stranger's.
    """

    def __init__(self, reason: str) -> None:
        line = " ".join(reason[: 2 * MAX_REASON_LEN].split())[:MAX_REASON_LEN]
        shown = "".join(char if char.isprintable() else "\ufffd" for char in line)
        super().__init__("chat template", shown.rstrip("."))
        self.reason = shown


class TemplateLimitExceeded(TemplateError):
    """A rendering took more steps, time or memory than it may, or ended its process."""

    def __init__(self) -> None:
        super().__init__("It takes too many steps, too much time or too much memory to render.")
