"""What Prometheus is told about dies, while models are on them and when one fails."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

import pytest
from prometheus_client.parser import text_string_to_metric_families

from accel.cuda.die import own_bytes
from inference import dies as dies_module
from inference.api import metrics
from inference.runtime import Runtime
from inference.runtime_access import set_runtime
from registry.models import Artifact
from registry.selectors import dies_overview
from registry.states import State
from tests.emulator.emulated_driver import K80_DIE_BYTES
from tests.inference.dies.wishes import WAIT_S, becomes, wish

pytestmark = pytest.mark.django_db(transaction=True)
GIB = 1 << 30


@pytest.fixture(autouse=True)
def _look_often(monkeypatch: pytest.MonkeyPatch, runtime: Runtime) -> Iterator[None]:
    monkeypatch.setattr(dies_module, "LOOK_S", 0.02)
    set_runtime(runtime)
    yield
    set_runtime(None)


def scrape(name: str) -> dict[str, float]:
    """The gauge by its die."""
    page, _content_type = metrics.page("")
    return {
        sample.labels["die"]: sample.value
        for family in text_string_to_metric_families(page.decode())
        for sample in family.samples
        if sample.name == f"pantheon_die_{name}"
    }


def comes(name: str, expected: dict[str, float]) -> None:
    deadline = time.monotonic() + WAIT_S
    while scrape(name) != expected and time.monotonic() < deadline:
        time.sleep(0.02)
    assert scrape(name) == expected


def test_a_loaded_model_is_seen_on_its_die(
    start: Callable, artifact: Artifact, emulated: object
) -> None:
    start()
    assert scrape("memory_bytes") == {"0": K80_DIE_BYTES, "1": K80_DIE_BYTES}
    assert scrape("replicas") == scrape("used_bytes") == {"0": 0, "1": 0}
    becomes(wish(artifact, dies=[1]), State.READY)
    comes("used_bytes", {"0": 0, "1": own_bytes(1)})
    assert scrape("used_bytes")["1"] > 0
    assert scrape("replicas") == {"0": 0, "1": 1}
    assert scrape("free_bytes") == {str(die.ordinal): die.free_bytes for die in dies_overview()}


def test_what_others_hold_is_seen(start: Callable, emulated) -> None:
    start()
    emulated.set_external_bytes(0, 3 * GIB)
    comes("external_bytes", {"0": 2 * GIB, "1": 0})
    assert scrape("free_bytes")["0"] == K80_DIE_BYTES - 3 * GIB


def test_a_failed_die_is_quarantined(start: Callable, artifact: Artifact, emulated) -> None:
    start()
    assert scrape("quarantined") == {"0": 0, "1": 0}
    emulated.break_die(0)
    becomes(wish(artifact, dies=[0]), State.FAILED)
    comes("quarantined", {"0": 1, "1": 0})
    assert scrape("free_bytes")["0"] == 0


def test_a_host_without_dies_has_no_such_gauges() -> None:
    assert b"pantheon_die" not in metrics.page("")[0]
