"""Leases on replicas: which one answers to a name, and what a drain waits for."""

from __future__ import annotations

import threading
from typing import cast

import pytest

from inference.engine.worker import Worker
from inference.runtime import (
    ModelDraining,
    ModelNotFound,
    NoModelLoaded,
    Runtime,
    ServedReplica,
)
from inference.text.text_model import TextModel


def replica(replica_id: str, name: str, created: int = 0) -> ServedReplica:
    """The runtime never looks at a replica's text or worker."""
    return ServedReplica(
        replica_id=replica_id,
        served_name=name,
        digest="",
        context_len=128,
        text=cast(TextModel, None),
        worker=cast(Worker, None),
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
