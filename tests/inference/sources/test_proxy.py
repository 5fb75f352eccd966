"""Downloads through a proxy, and the hosts excepted from it."""

from __future__ import annotations

import threading
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest

from inference.sources.errors import ForbiddenAddress, SourceUnavailable
from inference.sources.fetch import Fetcher
from inference.sources.network import Network

URL = "https://models.example/a.gguf"


def fetched(network, url=URL):
    with Fetcher(network) as fetcher:
        return fetcher.document(url, accept="*/*")


class Proxy:
    """A plain proxy that remembers what it was asked for and refuses it."""

    def __init__(self):
        outer = self
        self.asked = []

        class Handler(BaseHTTPRequestHandler):
            def do_CONNECT(self):
                outer.asked.append(self.path)
                self.send_error(502)

            def log_message(self, *args):
                pass

        self._server = HTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.01,))
        self._thread.start()

    def close(self):
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


@pytest.fixture
def proxy():
    proxy = Proxy()
    yield proxy
    proxy.close()


def test_a_proxy_is_asked_by_name(proxy):
    """It does the looking-up: names may mean nothing on this side of it."""
    with pytest.raises(SourceUnavailable):
        fetched(Network(proxy_url=proxy.url))
    assert proxy.asked == ["models.example:443"]


@pytest.mark.parametrize("host", ["127.0.0.1", "[::1]", "169.254.169.254"])
def test_a_proxy_is_not_asked_for_private_addresses(proxy, host):
    with pytest.raises(ForbiddenAddress):
        fetched(Network(proxy_url=proxy.url), f"https://{host}/a.gguf")
    assert not proxy.asked


@pytest.mark.parametrize("names", [("models.example",), (".example",), ("example",), ("*",)])
def test_hosts_can_be_excepted_from_the_proxy(proxy, names):
    network = Network(proxy_url=proxy.url, no_proxy=names, resolve=lambda host, port: ["10.0.0.1"])
    with pytest.raises(ForbiddenAddress):
        fetched(network)
    assert not proxy.asked


def test_other_hosts_are_not_excepted(proxy):
    with pytest.raises(SourceUnavailable):
        fetched(Network(proxy_url=proxy.url, no_proxy=("ample", "models.example.org")))
    assert proxy.asked


@pytest.mark.parametrize("proxy", ["nonsense", "gopher://proxy:70"])
def test_a_proxy_that_cannot_be_used_is_named(proxy):
    with pytest.raises(SourceUnavailable, match="The configured proxy cannot be used"):
        Fetcher(Network(proxy_url=proxy))
