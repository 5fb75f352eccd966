"""The ASGI application: Django, with the engine started beside it in this process.

A mistake of the operator's ends the process with the sentence that says what to do, not a traceback.
"""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, NoReturn

import django
from django.db.utils import OperationalError

from pantheon_site.env import BadSetting
from pantheon_site.lean_start import start_lean
from pantheon_site.old_database import what_to_do

if TYPE_CHECKING:
    from inference.api.handler import ApiHandler


def _start() -> ApiHandler:
    start_lean()
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "pantheon_site.settings")
    try:
        django.setup(set_prefix=False)
    except BadSetting as error:
        _end(error)
    from accel.errors import AccelError  # what follows needs Django set up
    from inference.api.handler import ApiHandler
    from inference.startup import AlreadyRunning, start_engine

    try:
        start_engine()
    except (AlreadyRunning, AccelError) as error:
        _end(error)
    except OperationalError as error:
        if not (sentence := what_to_do(error)):
            raise
        _end(sentence)
    return ApiHandler()


def _end(error: object) -> NoReturn:
    # Written here: runserver's reloader imports this in a thread, where an exit says nothing.
    sys.stderr.write(f"{error}\n")
    raise SystemExit(1)


application = _start()
