"""A small internet for the tests: a transport without sockets, and a real server on this machine."""

from __future__ import annotations

import contextlib
import functools
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import httpx
import pytest

from inference.sources import fetch
from inference.sources.network import Network

PUBLIC = "93.184.216.34"


@pytest.fixture(scope="session", autouse=True)
def certificates_are_loaded_once():
    """Loading the system's certificates is most of what a short test costs."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(fetch, "_trust", functools.cache(fetch._trust))
        yield


def streamed(status, body, headers=None):
    """A response whose body is still to be read, as from a socket."""
    headers = {"Content-Length": str(len(body)), **(headers or {})}
    return httpx.Response(status, headers=headers, stream=httpx.ByteStream(body))


class Internet:
    """Answers by URL, without sockets. Remembers the requests, under the names they were for."""

    def __init__(self):
        self.answers = {}
        self.addresses = {}
        self.requests = []

    def add(self, url, body=b"", *, status=200, headers=None, content=None):
        """`content`, if given, is sent as a stream without Content-Length."""
        self.answers[url] = (status, headers or {}, body if content is None else content)

    def redirect(self, url, location, status=302):
        self.add(url, status=status, headers={"Location": location})

    def network(self, **changes):
        return Network(
            **{
                "transport": httpx.MockTransport(self._handle),
                "resolve": lambda host, port: self.addresses.get(host, [PUBLIC]),
                "retry_delay_s": 0.0,
                **changes,
            }
        )

    def _handle(self, request):
        named = request.url.copy_with(host=request.headers["Host"].partition(":")[0])
        self.requests.append((str(named), request))
        if str(named) not in self.answers:
            return httpx.Response(404)
        status, headers, body = self.answers[str(named)]
        if isinstance(body, bytes):
            return streamed(status, body, headers)
        return httpx.Response(status, headers=headers, content=body)

    def urls(self):
        return [url for url, _ in self.requests]


@pytest.fixture
def internet():
    return Internet()


class LocalServer:
    """A real HTTP server. `drops`: byte counts after which the next responses break off."""

    def __init__(self):
        self.files = {}
        self.etags = {}
        self.drops = []
        self.resumable = True
        self.ranges = []
        outer = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self):
                outer.answer(self)

            def log_message(self, *args):
                pass

        class Server(ThreadingHTTPServer):
            daemon_threads = True

            def handle_error(self, request, client_address):
                """Clients that leave are part of the tests."""

        self._server = Server(("127.0.0.1", 0), Handler)
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.01,))
        self._thread.start()
        self.url = f"http://127.0.0.1:{self._server.server_port}"

    def close(self):
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def network(self, **changes):
        """Hub and index are the ones an operator configured, so they may be on this machine."""
        return Network(
            **{
                "index_url": f"{self.url}/simple",
                "hub_url": self.url,
                "retry_delay_s": 0.0,
                **changes,
            }
        )

    def answer(self, request):
        body = self.files.get(request.path)
        if body is None:
            request.send_error(404)
            return
        etag = self.etags.get(request.path)
        begin, wanted = 0, request.headers.get("Range")
        if not request.path.startswith(("/simple", "/api")):
            self.ranges.append(wanted)
        same = request.headers.get("If-Range") in (None, etag)
        if wanted and self.resumable and same:
            begin = int(wanted.removeprefix("bytes=").removesuffix("-"))
            request.send_response(206)
            request.send_header("Content-Range", f"bytes {begin}-{len(body) - 1}/{len(body)}")
        else:
            request.send_response(200)
        if etag:
            request.send_header("ETag", etag)
        kind = "application/vnd.pypi.simple.v1+json" if "/simple" in request.path else "text/plain"
        request.send_header("Content-Type", kind)
        request.send_header("Content-Length", str(len(body) - begin))
        request.end_headers()
        sent = body[begin:]
        if self.drops and not request.path.startswith(("/simple", "/api")):
            sent = sent[: self.drops.pop(0)]
            request.close_connection = True
        with contextlib.suppress(ConnectionError):
            request.wfile.write(sent)


@pytest.fixture
def server():
    server = LocalServer()
    yield server
    server.close()


@pytest.fixture
def models_dir(tmp_path):
    return tmp_path / "models"
