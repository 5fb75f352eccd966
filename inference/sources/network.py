"""How this server reaches others: index, hub, certificates, proxy.

Owns what is configured; opens no connection. The environment is handed in.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from inference.sources.address import resolve
from inference.sources.pip_config import (
    DEFAULT_INDEX_URL,
    pip_ca_bundle,
    pip_config_files,
    pip_index_url,
    proxy_url,
)

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    import httpx

    from inference.sources.address import Resolve

HUB_URL = "https://huggingface.co"


@dataclass(frozen=True)
class Network:
    """The operator's own index and hub may lie in the local network; nothing else may.

    `extra_ca` is a file of certificates trusted besides the usual ones; `hub_token` goes to the hub
    alone; hosts under the names in `no_proxy` are reached without the proxy. `transport` and
    `resolve` are replaced in tests.
    """

    index_url: str = DEFAULT_INDEX_URL
    hub_url: str = HUB_URL
    hub_token: str | None = field(default=None, repr=False)
    extra_ca: Path | None = None
    proxy_url: str | None = field(default=None, repr=False)
    no_proxy: tuple[str, ...] = ()
    max_file_bytes: int = 256 * 2**30
    retry_delay_s: float = 1.0
    transport: httpx.BaseTransport | None = None
    resolve: Resolve = resolve


# PyPI and the hub, without a proxy.
DIRECT = Network()


def configured_network(environ: Mapping[str, str]) -> Network:
    """What pip and the usual variables say (PIP_*, HTTPS_PROXY, NO_PROXY, HF_ENDPOINT, HF_TOKEN)."""
    files = pip_config_files(environ)
    excepted = environ.get("NO_PROXY") or environ.get("no_proxy") or ""
    return Network(
        index_url=pip_index_url(environ, files),
        hub_url=(environ.get("HF_ENDPOINT") or HUB_URL).rstrip("/"),
        hub_token=environ.get("HF_TOKEN") or None,
        extra_ca=pip_ca_bundle(environ, files),
        proxy_url=proxy_url(environ, files),
        no_proxy=tuple(name.strip() for name in excepted.split(",") if name.strip()),
    )
