"""Whether a server is running on this data folder, as another process can tell.

The server holds a lock on `engine.lock` for as long as it lives; knows nothing else about it.
"""

from __future__ import annotations

import fcntl
from pathlib import Path

from django.conf import settings


def server_is_running() -> bool:
    """Asked by a process that is not the server."""
    try:
        with (Path(settings.DATA_DIR) / "engine.lock").open() as lock_file:
            # Shared, and for an instant: two commands that ask at once do not take each other for a server.
            fcntl.flock(lock_file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except FileNotFoundError:
        return False
    except BlockingIOError:
        return True
    return False
