"""The ledger of dies stays exact over any sequence of binding and releasing (S56, S61, D6)."""

from __future__ import annotations

import random
from collections import Counter

import pytest

from registry.errors import PlacementRefused
from registry.models import Binding
from registry.placement import Demand, place_on_dies
from registry.selectors import bound_bytes_by_die, die_rooms
from registry.services import (
    binding_create,
    binding_release,
    binding_resize,
    dies_record,
    replica_request,
)
from registry.sizes import MIB
from tests.registry.conftest import ACTOR, GIB, measured

NUM_DIES, NUM_REPLICAS = 16, 12


@pytest.mark.django_db
@pytest.mark.timeout(900)
@pytest.mark.parametrize("num_steps", [400, pytest.param(10_000, marks=pytest.mark.slow)])
def test_the_ledger_is_the_sum_of_what_is_held(artifact, num_steps):
    rng = random.Random(20261130)
    dies_record([measured(o, external_bytes=rng.randrange(2 * GIB)) for o in range(NUM_DIES)])
    replicas = [
        replica_request(artifact=artifact, served_name=f"m{i}", actor=ACTOR).pk
        for i in range(NUM_REPLICAS)
    ]
    held: dict[str, tuple[int, dict[int, int]]] = {}
    num_refused = 0
    for step in range(num_steps):
        replica_id = rng.choice(replicas)
        if replica_id not in held:
            wanted = rng.randrange(100 * MIB, 30 * GIB)
            demand = Demand("m", wanted, rng.randrange(GIB), 64 * MIB, 8192, 16384)
            try:
                die_bytes = dict(place_on_dies(demand, die_rooms()).die_bytes)
                binding = binding_create(replica_id=replica_id, die_bytes=die_bytes)
            except PlacementRefused:
                num_refused += 1
            else:
                held[replica_id] = (binding.pk, die_bytes)
        elif rng.random() < 0.3:
            binding_id, die_bytes = held[replica_id]
            exact = {o: max(n + rng.randrange(-GIB, GIB), 1) for o, n in die_bytes.items()}
            try:
                binding_resize(replica_id=replica_id, die_bytes=exact)
            except PlacementRefused:
                num_refused += 1
            else:
                held[replica_id] = (binding_id, exact)
        else:
            assert binding_release(held.pop(replica_id)[0])
        expected = sum((Counter(die_bytes) for _id, die_bytes in held.values()), Counter())
        assert bound_bytes_by_die() == expected
        if step % 10 == 0:
            assert all(room.used_bytes <= room.budget_bytes for room in die_rooms())
    assert num_refused, "the dies were never full: the sequence proves less than it should"
    for binding_id, _die_bytes in held.values():
        binding_release(binding_id)
    assert bound_bytes_by_die() == {}
    assert not Binding.objects.filter(released_at__isnull=True).exists()
