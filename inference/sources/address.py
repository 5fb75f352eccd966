"""Addresses: which hosts a download may connect to.

Owns the rule that names from outside never lead into the local network; knows no HTTP.
"""

from __future__ import annotations

import ipaddress
import socket
from typing import TYPE_CHECKING

from inference.sources.errors import ForbiddenAddress, SourceUnavailable

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    Resolve = Callable[[str, int], Sequence[str]]

# IPv4 written inside IPv6 for translators: RFC 6052 and RFC 8215.
_TRANSLATED = (ipaddress.ip_network("64:ff9b::/96"), ipaddress.ip_network("64:ff9b:1::/48"))


def resolve(host: str, port: int) -> list[str]:
    """The addresses of a host, in the order to try them. Raises: SourceUnavailable."""
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError) as error:
        raise SourceUnavailable(host, "cannot be found in DNS", transient=True) from error
    return list(dict.fromkeys(str(entry[4][0]) for entry in found))


def require_global(host: str, addresses: Sequence[str]) -> None:
    """Refuse a host when any of its addresses is not on the public internet.

    Raises: ForbiddenAddress.
    """
    for address in addresses:
        if not is_global(address):
            raise ForbiddenAddress(host, f"its address {address} is not on the public internet")


def is_global(address: str) -> bool:
    """Whether an address is on the public internet, also when it is written inside another one."""
    try:
        ip = ipaddress.ip_address(address)
    except ValueError:
        return False
    if isinstance(ip, ipaddress.IPv6Address):
        inner = ip.ipv4_mapped or ip.sixtofour
        if any(ip in network for network in _TRANSLATED):
            inner = ipaddress.IPv4Address(int(ip) & 0xFFFFFFFF)
        if inner is not None:
            return is_global(str(inner))
    return ip.is_global and not ip.is_multicast
