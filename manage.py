#!/usr/bin/env python
"""Django's command line for this project."""

import os
import sys

from django.core.management import execute_from_command_line
from django.db.utils import OperationalError

from pantheon_site.env import BadSetting
from pantheon_site.lean_start import start_lean
from pantheon_site.old_database import what_to_do


def main() -> None:
    start_lean()
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "pantheon_site.settings")
    try:
        execute_from_command_line(sys.argv)
    except BadSetting as error:
        sys.exit(str(error))
    except OperationalError as error:
        if not (sentence := what_to_do(error)):
            raise
        sys.exit(sentence)
    except KeyboardInterrupt:
        sys.exit(130)  # what shells report for it


if __name__ == "__main__":
    main()
