"""Charging memory to replicas and giving it back. All of a binding is written, or none of it.

Knows nothing about choosing dies (placement) or about measuring them.
"""

from __future__ import annotations

from collections.abc import Mapping

from django.db import transaction
from django.utils import timezone

from registry.errors import InvalidValue, PlacementRefused
from registry.models import Binding, BindingShare, Die
from registry.selectors import bound_bytes_by_die
from registry.services.transitions import replica_get
from registry.sizes import format_bytes


@transaction.atomic
def binding_create(
    *, replica_id: str, die_bytes: Mapping[int, int] | None = None, host_bytes: int = 0
) -> Binding:
    """Bind memory to the replica; `die_bytes` are by die ordinal.

    Room is checked again here, in the transaction that takes it: a placement may be out of date.
    Raises: ReplicaNotFound, PlacementRefused, InvalidValue when the replica holds a binding already.
    """
    replica = replica_get(replica_id)
    if replica.bindings.filter(released_at__isnull=True).exists():
        raise InvalidValue("replica", f"{replica_id} holds memory already; release it first")
    binding = Binding.objects.create(replica=replica, host_bytes=host_bytes)
    _take(binding, die_bytes or {})
    return binding


@transaction.atomic
def binding_resize(*, replica_id: str, die_bytes: Mapping[int, int]) -> Binding:
    """Charge exactly these bytes instead of what was estimated; without room, everything stays as it is.

    Raises: ReplicaNotFound, PlacementRefused, InvalidValue when the replica holds no binding.
    """
    binding = replica_get(replica_id).bindings.filter(released_at__isnull=True).first()
    if binding is None:
        raise InvalidValue("replica", f"{replica_id} holds no memory")
    binding.shares.all().delete()
    _take(binding, die_bytes)
    return binding


def _take(binding: Binding, die_bytes: Mapping[int, int]) -> None:
    bound = bound_bytes_by_die()
    present = Die.objects.select_for_update().filter(ordinal__in=die_bytes, present=True)
    dies = {die.ordinal: die for die in present}
    for ordinal, num_bytes in sorted(die_bytes.items()):
        die = dies.get(ordinal)
        if die is None or die.failure:
            why = "does not exist" if die is None else f"has failed ({die.failure})"
            raise PlacementRefused(f"Die {ordinal} {why}; choose another die.")
        free = die.budget_bytes - die.external_bytes - bound.get(ordinal, 0)
        if num_bytes > free:
            raise PlacementRefused(
                f"{binding.replica.served_name} needs {format_bytes(num_bytes)} on die {ordinal}, which"
                f" has {format_bytes(max(free, 0))} free; unload another model or choose another die."
            )
        BindingShare.objects.create(binding=binding, die=die, bound_bytes=num_bytes)


def binding_release(binding_id: int) -> bool:
    """Give the memory back; False when it had been given back already."""
    changed = Binding.objects.filter(pk=binding_id, released_at__isnull=True).update(
        released_at=timezone.now()
    )
    return changed == 1
