"""The ASGI application: Django, with the engine started beside it in this process."""

from __future__ import annotations

import os

import django

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "pantheon_site.settings")
django.setup(set_prefix=False)

from inference.api.handler import ApiHandler  # noqa: E402  (needs Django set up)
from inference.startup import start_engine  # noqa: E402

application = ApiHandler()

start_engine()
