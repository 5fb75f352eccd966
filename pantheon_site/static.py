"""Static files of the installed apps, from memory and without a collection step.

Owns `/static/`. WhiteNoise and Django's own view answer with synchronous iterators, which an ASGI
server would have to consume in a thread; these files are few and small.
"""

from __future__ import annotations

import hashlib
import mimetypes
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from asgiref.sync import sync_to_async
from django.contrib.staticfiles import finders
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseNotModified
from django.http.response import HttpResponseBase

MAX_AGE_S = 3600


@dataclass(frozen=True)
class StaticFile:
    content: bytes
    content_type: str
    etag: str


@lru_cache(maxsize=512)
def _read(path: str) -> StaticFile | None:
    found = finders.find(path)
    if not isinstance(found, str) or not Path(found).is_file():
        return None
    content = Path(found).read_bytes()
    kind = mimetypes.guess_type(path)[0] or "application/octet-stream"
    return StaticFile(content, kind, f'"{hashlib.sha256(content).hexdigest()[:32]}"')


async def serve_static(request: HttpRequest, path: str) -> HttpResponseBase:
    file = await sync_to_async(_read)(path)
    if file is None:
        raise Http404(f"There is no static file {path}.")
    headers = {"ETag": file.etag, "Cache-Control": f"public, max-age={MAX_AGE_S}"}
    if request.headers.get("If-None-Match") == file.etag:
        return HttpResponseNotModified(headers=headers)
    return HttpResponse(file.content, content_type=file.content_type, headers=headers)
