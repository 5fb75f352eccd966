"""Commands of this project as a user can paste them: with the interpreter that runs now."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path


def manage_py(arguments: str) -> str:
    """Such as `.venv/bin/python manage.py migrate`, seen from the working directory."""
    python = Path(sys.executable)
    if python.is_relative_to(Path.cwd()):
        python = python.relative_to(Path.cwd())
    script = sys.argv[0] if Path(sys.argv[0]).name == "manage.py" else "manage.py"
    return f"{shlex.quote(str(python))} {shlex.quote(script)} {arguments}"
