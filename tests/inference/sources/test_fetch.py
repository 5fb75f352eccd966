"""Requests, redirects and credentials: where they go, and where they never go."""

from __future__ import annotations

import httpx
import pytest

from inference.sources import fetch
from inference.sources.address import resolve
from inference.sources.errors import ForbiddenAddress, SourceUnavailable, TooLarge
from inference.sources.fetch import Fetcher
from inference.sources.network import Network

URL = "https://models.example/a.gguf"


def fetched(network, url=URL):
    with Fetcher(network) as fetcher:
        return fetcher.document(url, accept="*/*")


def test_it_works(internet):
    internet.add(URL, b"body", headers={"Content-Type": "text/x"})
    document = fetched(internet.network())
    assert (document.body, document.content_type, document.url) == (b"body", "text/x", URL)


def test_the_connection_goes_to_the_address_that_was_checked(internet):
    """The name is looked up once; host header and certificate check still use the name."""
    internet.add(URL)
    fetched(internet.network())
    ((_, request),) = internet.requests
    assert request.url.host == "93.184.216.34"
    assert request.headers["Host"] == "models.example"
    assert request.extensions["sni_hostname"] == "models.example"


def test_a_name_beyond_ascii_is_looked_up_and_checked_in_its_encoded_form(internet):
    asked = []

    def resolve(host, port):
        asked.append((host, port))
        return ["93.184.216.34"]

    internet.add("https://xn--mller-kva.example/a")
    fetched(internet.network(resolve=resolve), "https://müller.example/a")
    assert asked == [("xn--mller-kva.example", 443)]
    assert internet.requests[0][1].extensions["sni_hostname"] == "xn--mller-kva.example"


def test_bodies_are_asked_for_as_they_are(internet):
    internet.add(URL)
    fetched(internet.network())
    assert internet.requests[0][1].headers["Accept-Encoding"] == "identity"


def test_a_compressed_body_is_refused(internet):
    internet.add(URL, content=iter([b"\x1f\x8b"]), headers={"Content-Encoding": "gzip"})
    with pytest.raises(SourceUnavailable, match="compressed body"):
        fetched(internet.network())


def test_a_document_has_a_largest_size(internet, monkeypatch):
    monkeypatch.setattr(fetch, "MAX_DOCUMENT_BYTES", 1000)
    internet.add(URL, content=iter([b"x" * 600, b"y" * 600, b"z"]))
    with pytest.raises(TooLarge):
        fetched(internet.network())


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_redirects_are_followed(internet, status):
    internet.redirect(URL, "https://cdn.example/b?sig=1", status)
    internet.add("https://cdn.example/b?sig=1", b"there")
    document = fetched(internet.network())
    assert (document.body, document.url) == (b"there", "https://cdn.example/b?sig=1")


def test_a_relative_redirect_stays_on_its_host(internet):
    internet.redirect(URL, "/elsewhere")
    internet.add("https://models.example/elsewhere", b"there")
    assert fetched(internet.network()).body == b"there"


def test_a_redirect_in_circles_ends(internet):
    internet.redirect(URL, URL)
    with pytest.raises(SourceUnavailable, match="redirects more than 5 times"):
        fetched(internet.network())
    assert len(internet.requests) == fetch.MAX_HOPS


@pytest.mark.parametrize(
    "address", ["127.0.0.1", "10.1.2.3", "169.254.169.254", "::1", "fd00::1", "::ffff:10.0.0.1"]
)
def test_a_redirect_to_a_private_address_is_refused_before_it_is_contacted(internet, address):
    internet.redirect(URL, "https://inside.example/b")
    internet.add("https://inside.example/b", b"secret")
    internet.addresses["inside.example"] = [address]
    with pytest.raises(ForbiddenAddress, match="not on the public internet"):
        fetched(internet.network())
    assert internet.urls() == [URL]


@pytest.mark.parametrize(
    "host",
    ["127.0.0.1", "127.1", "2130706433", "0x7f000001", "[::1]", "[::ffff:7f00:1]", "localhost"],
)
def test_a_redirect_to_a_spelled_out_private_address_is_refused(internet, host):
    internet.redirect(URL, f"https://{host}/b")
    network = internet.network(
        resolve=lambda name, port: (
            ["93.184.216.34"] if name == "models.example" else resolve(name, port)
        )
    )
    with pytest.raises(ForbiddenAddress):
        fetched(network)
    assert internet.urls() == [URL]


@pytest.mark.parametrize(
    "location",
    ["http://models.example/b", "ftp://models.example/b", "file:///etc/passwd", "gopher://x/"],
)
def test_a_redirect_away_from_https_is_refused(internet, location):
    internet.redirect(URL, location)
    with pytest.raises(ForbiddenAddress, match="only https"):
        fetched(internet.network())
    assert internet.urls() == [URL]


def test_a_redirect_with_credentials_is_refused(internet):
    internet.redirect(URL, "https://user:pw@cdn.example/b")
    with pytest.raises(ForbiddenAddress) as caught:
        fetched(internet.network())
    assert "pw" not in str(caught.value)


@pytest.mark.parametrize(
    "location", ["", "https://[::1/x", "https://host:99999/x", "https://host:0/x"]
)
def test_a_malformed_redirect_is_refused(internet, location):
    internet.redirect(URL, location)
    with pytest.raises((SourceUnavailable, ForbiddenAddress)):
        fetched(internet.network())
    assert internet.urls() == [URL]


@pytest.mark.parametrize(
    ("status", "words", "transient"),
    [
        (401, "set a token", False),
        (403, "terms may have to be accepted", False),
        (404, "does not exist", False),
        (410, "status 410", False),
        (429, "status 429", True),
        (500, "status 500", True),
        (503, "status 503", True),
        (206, "status 206", False),
        (204, "status 204", False),
    ],
)
def test_a_status_other_than_200_is_named(internet, status, words, transient):
    internet.add(URL, status=status)
    with pytest.raises(SourceUnavailable, match=words) as caught:
        fetched(internet.network())
    assert caught.value.transient is transient


def test_messages_hold_no_signature_and_no_password(internet):
    url = "https://models.example/a.gguf?X-Signature=secret"
    internet.add(url, status=404)
    with pytest.raises(SourceUnavailable) as caught:
        fetched(internet.network(), url)
    assert str(caught.value) == "https://models.example/a.gguf does not exist (404)."


def test_the_hubs_token_goes_to_the_hub_alone(internet):
    internet.redirect("https://huggingface.co/f", "https://cdn.example/f")
    internet.add("https://cdn.example/f", b"x")
    fetched(internet.network(hub_token="hf_secret"), "https://huggingface.co/f")
    (_, first), (_, second) = internet.requests
    assert first.headers["Authorization"] == "Bearer hf_secret"
    assert "Authorization" not in second.headers


@pytest.mark.parametrize(
    "url",
    [
        "https://huggingface.co.evil.example/f",
        "https://huggingface.co:8443/f",
        "https://cdn.huggingface.co/f",
    ],
)
def test_the_hubs_token_does_not_go_to_similar_origins(internet, url):
    internet.add(url)
    fetched(internet.network(hub_token="hf_secret"), url)
    assert "Authorization" not in internet.requests[0][1].headers


def test_an_indexs_password_goes_to_the_index_alone(internet):
    network = internet.network(index_url="https://me:pw@pip.example/simple")
    internet.redirect("https://pip.example/simple/a/", "https://files.example/a/")
    internet.add("https://files.example/a/")
    fetched(network, "https://me:pw@pip.example/simple/a/")
    (_, first), (_, second) = internet.requests
    assert first.headers["Authorization"] == "Basic bWU6cHc="
    assert first.url.userinfo == b"" and "Authorization" not in second.headers


def test_secrets_do_not_show_in_a_networks_text():
    shown = repr(Network(hub_token="hf_secret", proxy_url="http://me:pw@proxy:3128"))
    assert "hf_secret" not in shown and "pw" not in shown


def test_the_configured_index_may_be_in_the_local_network(internet):
    internet.addresses["pip.lan"] = ["192.168.1.5"]
    internet.add("http://pip.lan:3141/simple/a/", b"page")
    network = internet.network(index_url="http://pip.lan:3141/simple")
    assert fetched(network, "http://pip.lan:3141/simple/a/").body == b"page"


@pytest.mark.parametrize(
    "url", ["http://pip.lan:80/x", "https://pip.lan:3141/x", "https://nas.lan/x"]
)
def test_its_neighbours_may_not(internet, url):
    internet.addresses |= {"pip.lan": ["192.168.1.5"], "nas.lan": ["192.168.1.6"]}
    network = internet.network(index_url="http://pip.lan:3141/simple")
    with pytest.raises(ForbiddenAddress):
        fetched(network, url)
    assert not internet.requests


@pytest.mark.parametrize(("index", "allowed"), [("pypi.org", True), ("pip.example", False)])
def test_pypi_is_chosen_together_with_the_host_of_its_files(internet, index, allowed):
    """Where a mirror answers for both names, it answers in the local network."""
    internet.addresses |= {"pypi.org": ["10.0.0.1"], "files.pythonhosted.org": ["10.0.0.1"]}
    internet.add("https://files.pythonhosted.org/f", b"wheel")
    network = internet.network(index_url=f"https://{index}/simple")
    if allowed:
        assert fetched(network, "https://files.pythonhosted.org/f").body == b"wheel"
    else:
        with pytest.raises(ForbiddenAddress):
            fetched(network, "https://files.pythonhosted.org/f")


def test_every_address_of_a_host_is_tried(internet):
    tried = []

    def handle(request):
        tried.append(request.url.host)
        if len(tried) < 3:
            raise httpx.ConnectError("refused")
        return httpx.Response(200, stream=httpx.ByteStream(b"third"))

    network = internet.network(
        transport=httpx.MockTransport(handle),
        resolve=lambda host, port: ["93.184.216.34", "2606:2800:220:1::1", "1.1.1.1"],
    )
    assert fetched(network).body == b"third"
    assert tried == ["93.184.216.34", "2606:2800:220:1::1", "1.1.1.1"]


def test_a_host_that_cannot_be_reached_may_be_later(internet):
    def refuse(request):
        raise httpx.ConnectError("refused")

    with pytest.raises(SourceUnavailable) as caught:
        fetched(internet.network(transport=httpx.MockTransport(refuse)))
    assert caught.value.transient and "cannot be reached" in str(caught.value)
