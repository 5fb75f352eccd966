"""Leases on replicas: which one answers to a name, and what a drain waits for."""

from __future__ import annotations

import threading
from types import SimpleNamespace
from typing import cast

import pytest

from accel.backend import MemoryUse
from inference.engine.worker import Worker
from inference.runtime import (
    ModelDraining,
    ModelNotFound,
    NoModelLoaded,
    Runtime,
    ServedReplica,
)
from inference.session_affinity import SessionAffinity, SessionKey
from inference.text.text_model import TextModel


def replica(replica_id: str, name: str, created: int = 0, num_slots: int = 2) -> ServedReplica:
    """The runtime looks at no text, and of a worker at its slots alone."""
    return ServedReplica(
        replica_id=replica_id,
        served_name=name,
        digest="",
        context_len=128,
        text=cast(TextModel, None),
        worker=cast(Worker, SimpleNamespace(num_slots=num_slots)),
        memory=MemoryUse(0, 0, 0),
        free_memory=lambda: None,
        created_unix_s=created,
    )


def runtime_of(*replicas: ServedReplica, strict_model: bool = False) -> Runtime:
    runtime = Runtime(strict_model=strict_model)
    for each in replicas:
        runtime.add(each)
    return runtime


def test_nothing_loaded_is_said() -> None:
    with pytest.raises(NoModelLoaded):
        runtime_of().lease("alpha")


@pytest.mark.parametrize("name", [None, "alpha", "gpt-4o", ""])
def test_the_only_served_name_answers_to_any(name: str | None) -> None:
    """S19, S20, D5; several replicas of one name are one name."""
    runtime = runtime_of(replica("1", "alpha"), replica("2", "alpha"))
    assert runtime.lease(name).replica.served_name == "alpha"


def test_a_strict_server_wants_the_name() -> None:
    runtime = runtime_of(replica("1", "alpha"), strict_model=True)
    with pytest.raises(ModelNotFound):
        runtime.lease("gpt-4o")
    assert runtime.lease("alpha").replica.replica_id == "1"


def test_with_several_names_an_unknown_one_is_refused_and_lists_the_known() -> None:
    runtime = runtime_of(replica("1", "beta"), replica("2", "alpha"))
    with pytest.raises(ModelNotFound, match="alpha, beta"):
        runtime.lease("gamma")


def test_with_several_names_and_none_given_the_first_loaded_answers() -> None:
    runtime = runtime_of(replica("1", "beta"), replica("2", "alpha"))
    assert runtime.lease(None).replica.served_name == "beta"


def test_the_replica_with_fewest_leases_answers() -> None:
    """S18."""
    runtime = runtime_of(replica("1", "alpha"), replica("2", "alpha"), replica("3", "alpha"))
    leases = [runtime.lease("alpha") for _ in range(6)]
    assert sorted(lease.replica.replica_id for lease in leases) == ["1", "1", "2", "2", "3", "3"]
    freed = leases[3].replica
    leases[3].release()
    assert runtime.lease("alpha").replica is freed


def test_idle_replicas_take_turns() -> None:
    runtime = runtime_of(replica("1", "alpha"), replica("2", "alpha"))
    answered = []
    for _ in range(4):
        with runtime.lease("alpha") as lease:
            answered.append(lease.replica.replica_id)
    assert sorted(answered) == ["1", "1", "2", "2"]


def test_a_draining_model_is_refused_and_never_replaced_by_another() -> None:
    """D5."""
    runtime = runtime_of(replica("1", "alpha"), replica("2", "beta"))
    runtime.drain("1")
    with pytest.raises(ModelDraining):
        runtime.lease("alpha")
    assert [model.name for model in runtime.models()] == ["beta"]
    runtime.undrain("1")
    assert runtime.lease("alpha").replica.replica_id == "1"


def test_a_drain_waits_for_every_lease_and_no_longer() -> None:
    runtime = runtime_of(replica("1", "alpha"))
    lease = runtime.lease("alpha")
    runtime.drain("1")
    assert not runtime.wait_drained("1", timeout_s=0.02)
    threading.Timer(0.05, lease.release).start()
    assert runtime.wait_drained("1", timeout_s=10)


def test_a_lease_is_given_back_once() -> None:
    runtime = runtime_of(replica("1", "alpha"))
    first, second = runtime.lease("alpha"), runtime.lease("alpha")
    first.release()
    first.release()
    assert second.replica.num_leases == 1


def test_replicas_of_a_name_are_listed_once() -> None:
    """S4."""
    runtime = runtime_of(
        replica("1", "alpha", 20), replica("2", "alpha", 10), replica("3", "beta", 30)
    )
    assert [(m.name, m.created_unix_s, m.num_replicas) for m in runtime.models()] == [
        ("alpha", 10, 2),
        ("beta", 30, 1),
    ]


def two_replicas() -> Runtime:
    return runtime_of(replica("1", "alpha"), replica("2", "alpha"))


def served_by(runtime: Runtime, session_id: str, tenant: str = "") -> str:
    with runtime.lease("alpha", session_id=session_id, tenant=tenant) as lease:
        return lease.replica.replica_id


def test_a_session_returns_to_the_replica_that_served_it() -> None:
    """D11: although another one has fewer leases."""
    runtime = two_replicas()
    home = served_by(runtime, "s")
    with runtime.lease("alpha", session_id="s") as beside:
        assert beside.replica.replica_id == home
        assert [served_by(runtime, "s") for _ in range(4)] == [home] * 4


def test_requests_without_a_session_have_no_home() -> None:
    runtime = two_replicas()
    assert {served_by(runtime, "") for _ in range(4)} == {"1", "2"}


def test_a_session_leaves_a_full_replica_and_stays_where_it_went() -> None:
    runtime = two_replicas()
    home = served_by(runtime, "s")
    leases = [runtime.lease("alpha", session_id="s") for _ in range(2)]
    other = served_by(runtime, "s")
    assert other != home
    for lease in leases:
        lease.release()
    assert served_by(runtime, "s") == other, "its newest pages are there"


def test_a_session_leaves_a_draining_and_a_removed_replica() -> None:
    runtime = two_replicas()
    home = served_by(runtime, "s")
    runtime.drain(home)
    other = served_by(runtime, "s")
    assert other != home
    runtime.undrain(home)
    runtime.remove(other)
    assert served_by(runtime, "s") == home


def test_equal_session_ids_of_two_tenants_are_two_sessions() -> None:
    runtime = two_replicas()
    homes = [served_by(runtime, "s", tenant) for tenant in ("a", "b")]
    assert set(homes) == {"1", "2"}, "in turn, as nothing ties the second to the first"
    assert [served_by(runtime, "s", tenant) for tenant in ("a", "b")] == homes


def test_a_session_has_a_home_for_each_served_name() -> None:
    runtime = runtime_of(replica("1", "alpha"), replica("2", "beta"))
    for _ in range(2):
        assert runtime.lease("alpha", session_id="s").replica.replica_id == "1"
        assert runtime.lease("beta", session_id="s").replica.replica_id == "2"


def test_the_sessions_used_longest_ago_are_forgotten() -> None:
    affinity = SessionAffinity(max_sessions=2)
    keys = [SessionKey("", session_id, "alpha") for session_id in "abc"]
    affinity.remember(keys[0], "1")
    affinity.remember(keys[1], "2")
    affinity.remember(keys[0], "1")
    affinity.remember(keys[2], "3")
    assert [affinity.find(key) for key in keys] == ["1", None, "3"]
