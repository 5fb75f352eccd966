"""Which addresses are on the public internet."""

from __future__ import annotations

import pytest

from inference.sources.address import is_global, require_global, resolve
from inference.sources.errors import ForbiddenAddress, SourceUnavailable


@pytest.mark.parametrize(
    "address", ["93.184.216.34", "1.1.1.1", "2606:2800:220:1::1", "2002:808:808::1"]
)
def test_public_addresses_are(address):
    assert is_global(address)


@pytest.mark.parametrize(
    "address",
    [
        "127.0.0.1",
        "127.1.2.3",
        "0.0.0.0",
        "10.0.0.1",
        "172.16.0.1",
        "192.168.1.1",
        "100.64.0.1",
        "169.254.169.254",
        "192.0.2.1",
        "224.0.0.1",
        "239.1.1.1",
        "255.255.255.255",
        "240.0.0.1",
        "::",
        "::1",
        "fe80::1",
        "fe80::1%eth0",
        "fc00::1",
        "fd12::1",
        "ff02::1",
        "::ffff:127.0.0.1",
        "::ffff:169.254.169.254",
        "64:ff9b::7f00:1",
        "64:ff9b::a9fe:a9fe",
        "64:ff9b:1::a00:1",
        "2002:7f00:1::1",
        "2002:a00:1::1",
        "2001:db8::1",
        "not an address",
        "",
    ],
)
def test_others_are_not(address):
    assert not is_global(address)


def test_one_private_address_among_several_condemns_a_host():
    with pytest.raises(ForbiddenAddress) as caught:
        require_global("host", ["93.184.216.34", "10.0.0.1"])
    assert "10.0.0.1" in str(caught.value)


@pytest.mark.parametrize("host", ["127.0.0.1", "127.1", "2130706433", "0x7f000001", "localhost"])
def test_every_spelling_of_this_machine_resolves_to_an_address_that_is_refused(host):
    with pytest.raises(ForbiddenAddress):
        require_global(host, resolve(host, 443))


@pytest.mark.parametrize("host", ["nothing.invalid", "a" * 300, "ex\udc80mple"])
def test_a_name_that_means_nothing_is_unavailable(host):
    with pytest.raises(SourceUnavailable):
        resolve(host, 443)
