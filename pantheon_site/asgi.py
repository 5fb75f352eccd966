"""The ASGI application: Django, with the engine started beside it in this process."""

from __future__ import annotations

import os

from django.core.asgi import get_asgi_application

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "pantheon_site.settings")
application = get_asgi_application()

from inference.startup import start_engine  # noqa: E402  (needs Django set up)

start_engine()
