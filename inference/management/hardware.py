"""What the commands about dies share: rows that are true, whoever looked last."""

from __future__ import annotations

from dataclasses import replace

from django.conf import settings
from django.core.management.base import CommandError

from accel.errors import AccelError
from inference.dies import die_settings, find_dies
from registry.selectors import DieUse, dies_overview
from registry.serving_process import server_is_running


def current_dies() -> list[DieUse]:
    """As the running server sees them, else as they are found now. Raises: CommandError."""
    if server_is_running():
        return dies_overview()
    try:
        find_dies(die_settings(settings.PANTHEON))
    except AccelError as error:
        raise CommandError(str(error)) from error
    # Bindings of a server that was killed are released at the next start; nothing holds them now.
    return [replace(die, bound_bytes=0, bindings=()) for die in dies_overview()]
