"""Asking how much host memory is left. The measuring is another layer's; a setting names it.

HOST_MEMORY_PROBE is the dotted path of a function without arguments that returns bytes.
"""

from __future__ import annotations

from django.conf import settings
from django.utils.module_loading import import_string


def available_bytes() -> int:
    """Raises: OSError where the host cannot be measured."""
    return int(import_string(settings.HOST_MEMORY_PROBE)())
