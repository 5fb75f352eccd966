"""`manage.py dies` and `manage.py plan`: what there is, and what fits where."""

from __future__ import annotations

from io import StringIO

import pytest
from django.core.management import CommandError, call_command

from accel.cuda.emulation import EmulationUnavailable
from inference.management import hardware
from inference.management.commands import plan
from registry.services import (
    MeasuredDie,
    artifact_register,
    binding_create,
    dies_measured,
    dies_record,
    replica_request,
)

pytestmark = pytest.mark.django_db
GIB = 1 << 30


@pytest.fixture
def found(monkeypatch):
    """What a look at the host finds; a test may put dies there."""
    dies: list[MeasuredDie] = []
    monkeypatch.setattr(hardware, "find_dies", lambda settings: dies_record(dies))
    monkeypatch.setattr(plan, "available_bytes", lambda: 6 * GIB)
    return dies


@pytest.fixture
def artifact():
    return artifact_register(
        path="/m/big.gguf",
        digest=f"sha256:{'0' * 64}",
        source="test",
        info={"name": "Big", "weight_bytes": 12 * GIB, "context_len": 1024},
    )


def two_dies(**fields):
    idle = {"total_bytes": 12 * GIB, "budget_bytes": 11 * GIB, "external_bytes": 0}
    return [MeasuredDie(o, 0, "Tesla K80", **{**idle, **fields}) for o in range(2)]


def run(*arguments) -> str:
    out = StringIO()
    call_command(*arguments, stdout=out, no_color=True)
    return out.getvalue()


def test_a_host_without_dies_says_so(found):
    assert run("dies").startswith("No CUDA driver was found on this host")


def test_dies_are_listed_with_models_and_failures(found, artifact, monkeypatch):
    monkeypatch.setenv("COLUMNS", "160")
    found += two_dies(pci_address="0000:05:00.0")
    dies_record(found)
    replica = replica_request(artifact=artifact, served_name="chat", actor="test")
    binding_create(replica_id=replica.pk, die_bytes={0: 3 * GIB})
    dies_measured([two_dies(failure="fell off the bus")[1]])
    monkeypatch.setattr(hardware, "server_is_running", lambda: True)
    said = run("dies")
    assert "Tesla K80" in said
    assert "0000:05:00.0" in said
    assert "chat 3.0 GiB" in said
    assert "8.0 GiB" in said
    assert "failed: fell off the bus" in said


def test_a_running_server_s_measurements_are_taken(found, monkeypatch):
    """A second process must not open its dies."""
    monkeypatch.setenv("COLUMNS", "160")
    dies_record(two_dies())
    monkeypatch.setattr(hardware, "server_is_running", lambda: True)
    monkeypatch.setattr(hardware, "find_dies", lambda settings: pytest.fail("the dies were opened"))
    assert "Tesla K80" in run("dies")


def test_bindings_of_a_killed_server_hold_nothing(found, artifact):
    found += two_dies()
    dies_record(found)
    replica = replica_request(artifact=artifact, served_name="chat", actor="test")
    binding_create(replica_id=replica.pk, die_bytes={0: 3 * GIB, 1: 9 * GIB})
    assert "chat" not in run("dies")
    assert "goes to die 0, die 1." in run("plan", "Big")


def test_dies_that_cannot_be_emulated_are_an_error(monkeypatch):
    def refuse(settings):
        raise EmulationUnavailable("g++ is not installed")

    monkeypatch.setattr(hardware, "find_dies", refuse)
    with pytest.raises(CommandError, match=r"g\+\+ is not installed"):
        run("dies")


def test_a_plan_names_the_place_and_every_refusal(found, artifact, monkeypatch):
    monkeypatch.setenv("COLUMNS", "200")
    found += two_dies()
    said = run("plan", "Big")
    assert "Big needs 12.1 GiB" in said
    assert "A load that names no dies goes to die 0, die 1." in said
    assert "6.1 GiB + 6.1 GiB" in said
    assert "die 0 has 11.0 GiB free" in said
    assert "6.0 GiB of host memory are available" in said


def test_a_plan_for_what_fits_nowhere_says_why(found, artifact, monkeypatch):
    monkeypatch.setenv("COLUMNS", "300")
    said = run("plan", "Big")
    assert "It fits nowhere." in said
    assert "6.0 GiB of host memory are available" in " ".join(said.split())


def test_an_unknown_model_is_refused(found):
    with pytest.raises(CommandError, match="No model file 'nothing' is registered"):
        run("plan", "nothing")
