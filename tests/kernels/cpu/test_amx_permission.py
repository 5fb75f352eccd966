"""AMX is used where the kernel allows it, and only there."""

from __future__ import annotations

import pytest

from kernels.cpu import amx_permission, kernel_cache
from kernels.cpu.errors import IsaRefused

AMX_HOST = {"amx-tile", "amx-int8", "avx512vnni", "avx512f", "avx512bw", "avx512vl", "fma", "f16c"}


@pytest.mark.parametrize(("allowed", "isa"), [(True, "amx"), (False, "avx512vnni")])
def test_refusal(allowed, isa, monkeypatch):
    """A host that has AMX but may not use it goes on with the next best."""
    monkeypatch.setattr(kernel_cache, "_features", lambda: AMX_HOST)
    monkeypatch.setattr(amx_permission, "request", lambda: allowed)
    assert kernel_cache.host_isa() == isa


def test_forced_without_permission(monkeypatch):
    """Who asks for AMX by name is told that it cannot be had."""
    monkeypatch.setattr(amx_permission, "request", lambda: False)
    with pytest.raises(IsaRefused, match="does not let this process use amx"):
        kernel_cache.configure(isa="amx")


def test_not_asked_without_need(monkeypatch):
    """A host without AMX asks for nothing."""
    monkeypatch.setattr(kernel_cache, "_features", lambda: {"ssse3"})
    monkeypatch.setattr(amx_permission, "request", lambda: pytest.fail("asked"))
    assert kernel_cache.host_isa() == "ssse3"


def test_asking_twice():
    """A second request is answered as the first."""
    assert amx_permission.request() == amx_permission.request()
