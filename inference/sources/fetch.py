"""Requests to other hosts: https only, each hop checked, connected to the address that was checked.

Owns the client, redirects, credentials and the way failures are named; knows nothing of model files.
"""

from __future__ import annotations

import contextlib
import ssl
from dataclasses import dataclass
from typing import TYPE_CHECKING, Self

import httpx

from inference.sources.address import require_global
from inference.sources.errors import ForbiddenAddress, SourceUnavailable, TooLarge

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path
    from types import TracebackType

    from inference.sources.network import Network

# PyPI is two hosts: who chose the index chose the one its files are on.
_PYPI, _PYPI_FILES = "pypi.org", "files.pythonhosted.org"
MAX_HOPS = 6
MAX_DOCUMENT_BYTES = 32 * 2**20
_REDIRECTS = frozenset({301, 302, 303, 307, 308})
_TRANSIENT = frozenset({408, 429, 500, 502, 503, 504})


@dataclass(frozen=True)
class Document:
    """A small answer, read whole. `url` is where it came from in the end."""

    url: str
    content_type: str
    body: bytes


class Fetcher:
    """An open client. Context manager."""

    def __init__(self, network: Network) -> None:
        self.network = network
        self._index, self._hub = _parsed(network.index_url), _parsed(network.hub_url)
        trust = _trust(network.extra_ca)
        self._direct = _client(network, trust, None)
        self._proxied = _client(network, trust, network.proxy_url) if network.proxy_url else None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._direct.close()
        if self._proxied is not None:
            self._proxied.close()

    def document(self, url: str, *, accept: str) -> Document:
        """A small document. Raises: SourceUnavailable, ForbiddenAddress, TooLarge."""
        with self.stream(url, {"Accept": accept}) as response:
            require_success(response)
            body = bytearray()
            for chunk in read_raw(response):
                body += chunk
                if len(body) > MAX_DOCUMENT_BYTES:
                    raise TooLarge(shown_url(url), len(body), MAX_DOCUMENT_BYTES)
            kind = response.headers.get("Content-Type", "")
            return Document(response.extensions["final_url"], kind, bytes(body))

    @contextlib.contextmanager
    def stream(self, url: str, headers: Mapping[str, str]) -> Iterator[httpx.Response]:
        """A response that is no redirect, its body unread; any status but those.

        Raises: SourceUnavailable, ForbiddenAddress.
        """
        target = _parsed(url)
        for _ in range(MAX_HOPS):
            response = self._send(target, headers)
            try:
                if response.status_code not in _REDIRECTS:
                    response.extensions["final_url"] = str(target)
                    yield response
                    return
                target = _redirected(target, response)
            finally:
                response.close()
        raise SourceUnavailable(shown_url(url), f"redirects more than {MAX_HOPS - 1} times")

    def _send(self, url: httpx.URL, headers: Mapping[str, str]) -> httpx.Response:
        client = self._client_for(url)
        addresses = self._checked_addresses(url, proxied=client is self._proxied)
        sent = {**headers, **self._credentials(url), "Host": url.netloc.decode("ascii")}
        where = shown_url(str(url))
        name = url.raw_host.decode("ascii")
        failure: Exception | None = None
        for address in addresses:
            # To the address that was checked, not to whatever the name means a moment later.
            request = client.build_request(
                "GET",
                url.copy_with(host=address, username=None, password=None),
                headers=sent,
                extensions={"sni_hostname": name},
            )
            try:
                return client.send(request, stream=True, auth=None, follow_redirects=False)
            except httpx.ConnectError as error:
                failure = error
            except httpx.TransportError as error:
                raise SourceUnavailable(where, _said(error), transient=True) from error
        raise SourceUnavailable(
            where, f"cannot be reached ({failure or 'it has no address'})", transient=True
        ) from failure

    def _client_for(self, url: httpx.URL) -> httpx.Client:
        names = (name.lstrip(".").lower() for name in self.network.no_proxy)
        excepted = any(
            name == "*" or url.host == name or url.host.endswith(f".{name}") for name in names
        )
        return self._direct if self._proxied is None or excepted else self._proxied

    def _checked_addresses(self, url: httpx.URL, *, proxied: bool) -> list[str]:
        configured = self._is_configured(url)
        if url.scheme != "https" and not (configured and url.scheme == "http"):
            raise ForbiddenAddress(shown_url(str(url)), "only https URLs are fetched")
        default_port = 443 if url.scheme == "https" else 80
        port = default_port if url.port is None else url.port
        if not url.host or not 0 < port < 2**16:
            raise ForbiddenAddress(shown_url(str(url)), "it has no host, or an impossible port")
        if proxied:
            # The proxy looks names up and is the operator's; only a bare address can be judged here.
            if not configured and _is_address(url.host):
                require_global(url.host, [url.host])
            return [url.host]
        addresses = list(self.network.resolve(url.raw_host.decode("ascii"), port))
        if not configured:
            require_global(url.host, addresses)
        return addresses

    def _is_configured(self, url: httpx.URL) -> bool:
        """Whether the operator chose this host, which then may lie in the local network."""
        if any(_origin(url) == _origin(mine) for mine in (self._index, self._hub)):
            return True
        return self._index.host == _PYPI and (url.scheme, url.host) == ("https", _PYPI_FILES)

    def _credentials(self, url: httpx.URL) -> dict[str, str]:
        """What the operator configured for exactly this origin; nothing follows a redirect."""
        if _origin(url) == _origin(self._index) and self._index.username:
            basic = httpx.BasicAuth(self._index.username, self._index.password)
            request = next(basic.auth_flow(httpx.Request("GET", url)))
            return {"Authorization": request.headers["Authorization"]}
        if _origin(url) == _origin(self._hub) and self.network.hub_token:
            return {"Authorization": f"Bearer {self.network.hub_token}"}
        return {}


def read_raw(response: httpx.Response) -> Iterator[bytes]:
    """The body as sent, in pieces. Raises: SourceUnavailable."""
    where = shown_url(response.extensions["final_url"])
    if response.headers.get("Content-Encoding", "identity").lower() != "identity":
        raise SourceUnavailable(where, "sent a compressed body that was not asked for")
    try:
        yield from response.iter_raw()
    except httpx.TransportError as error:
        raise SourceUnavailable(where, _said(error), transient=True) from error


def require_success(response: httpx.Response) -> None:
    """Refuse any status but 200. Raises: SourceUnavailable."""
    status = response.status_code
    if status == 200:
        return
    reasons = {
        401: "wants credentials (401); set a token with access to it",
        403: "refuses access (403); its terms may have to be accepted there first",
        404: "does not exist (404)",
    }
    reason = reasons.get(status, f"answered with status {status}")
    where = shown_url(response.extensions["final_url"])
    raise SourceUnavailable(where, reason, transient=status in _TRANSIENT)


def shown_url(url: str) -> str:
    """A URL fit for messages: without query (signatures), user and password."""
    try:
        parsed = httpx.URL(url)
    except httpx.InvalidURL:
        return ascii(url[:80])
    return str(parsed.copy_with(username=None, password=None, query=None, fragment=None))[:200]


def _client(network: Network, trust: ssl.SSLContext, proxy: str | None) -> httpx.Client:
    try:
        return httpx.Client(
            transport=network.transport,
            verify=trust,
            proxy=proxy,
            trust_env=False,
            timeout=httpx.Timeout(60.0, connect=20.0),
            # Hosts behind one address must not share a connection: it was made for one name.
            limits=httpx.Limits(max_keepalive_connections=0),
            headers={"User-Agent": "pantheon", "Accept-Encoding": "identity"},
        )
    except (ValueError, ImportError) as error:
        raise SourceUnavailable("The configured proxy", f"cannot be used ({error})") from error


def _trust(extra_ca: Path | None) -> ssl.SSLContext:
    context = httpx.create_ssl_context()
    context.load_default_certs()
    if extra_ca is not None:
        try:
            context.load_verify_locations(cafile=extra_ca)
        except OSError as error:
            raise SourceUnavailable(str(extra_ca), "holds no readable certificates") from error
    return context


def _parsed(url: str) -> httpx.URL:
    try:
        return httpx.URL(url)
    except httpx.InvalidURL as error:
        raise SourceUnavailable(shown_url(url), "is malformed") from error


def _redirected(url: httpx.URL, response: httpx.Response) -> httpx.URL:
    where = shown_url(str(url))
    location = response.headers.get("Location")
    if not location:
        raise SourceUnavailable(where, "redirects to nowhere")
    try:
        target = url.join(location)
    except httpx.InvalidURL as error:
        raise SourceUnavailable(where, "redirects to a malformed URL") from error
    if target.userinfo and not location.startswith(("/", "?")):
        raise ForbiddenAddress(shown_url(str(target)), "a redirect brought its own credentials")
    return target


def _origin(url: httpx.URL) -> tuple[str, str, int | None]:
    return url.scheme, url.host, url.port


def _is_address(host: str) -> bool:
    return host.replace(".", "").isdigit() or ":" in host


def _said(error: httpx.TransportError) -> str:
    return f"failed: {type(error).__name__}" + (f" ({error})" if str(error) else "")
