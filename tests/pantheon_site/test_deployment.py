"""Behind a TLS proxy Django's own deployment checks find nothing to warn about."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
PLAIN_HTTP = {"security.W004", "security.W008", "security.W012", "security.W016"}


def warnings(folder: Path, **environ: str) -> set[str]:
    """Ids of what `check --deploy` says of a server with these settings."""
    done = subprocess.run(
        [sys.executable, "manage.py", "check", "--deploy"],
        cwd=ROOT,
        env={
            **os.environ,
            "DJANGO_SETTINGS_MODULE": "pantheon_site.settings",
            "PANTHEON_DATA_DIR": str(folder),
            **environ,
        },
        capture_output=True,
        text=True,
        check=True,
    )
    words = (done.stdout + done.stderr).replace("(", " ").replace(")", " ").split()
    return {word for word in words if ".W" in word or ".E" in word}


def test_a_server_behind_tls_has_no_warnings(tmp_path: Path) -> None:
    assert warnings(tmp_path, DJANGO_HTTPS="1") == set()


def test_what_plain_http_gives_up_is_named(tmp_path: Path) -> None:
    """And nothing else: every one of these is answered by DJANGO_HTTPS."""
    assert warnings(tmp_path) == PLAIN_HTTP
