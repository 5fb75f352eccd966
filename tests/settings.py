"""Django settings of the test run: the project's own, on a throw-away database file.

A file, not memory: threads of one process lock each other out of an in-memory SQLite database at once,
whatever the timeout.
"""

import os
import tempfile
from pathlib import Path

os.environ.setdefault("PANTHEON_DATA_DIR", tempfile.mkdtemp(prefix="pantheon-tests-"))

from pantheon_site.settings import *  # noqa: F403

DATABASES["default"]["TEST"] = {"NAME": str(Path(DATA_DIR) / "test.sqlite3")}  # noqa: F405
DATABASES["default"]["OPTIONS"]["init_command"] += " PRAGMA synchronous=OFF;"  # noqa: F405
PASSWORD_HASHERS = [
    "django.contrib.auth.hashers.MD5PasswordHasher"
]  # many logins, nothing to protect
