"""A database that lacks tables or columns of this code, told from everything else that can go wrong with one.

Owns the words for it. Knows nothing about migrations, nor what was asked of the database.
"""

from __future__ import annotations

from inference.management.command_line import manage_py

_SAID_BY_SQLITE = ("no such table: ", "no such column: ")


def what_to_do(error: Exception) -> str:
    """The sentence for whoever started the command; empty where the database is not simply old."""
    if not str(error).startswith(_SAID_BY_SQLITE):
        return ""
    return f"The database is not up to date; run: {manage_py('migrate')}"
