"""Reading the control plane. Writes nothing; knows nothing about how what it returns is shown."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from django.db.models import Prefetch, Sum

from registry.models import ApiKey, Artifact, BindingShare, Die, Job, Replica
from registry.placement import DieRoom
from registry.states import HELD, LIVE, State, Wanted

# Why there are no dies to list.
NO_DIES = "No CUDA driver was found on this host; models run on the CPU."


@dataclass(frozen=True)
class DieUse:
    """One die as the status route and the dashboard show it; every binding on it is listed."""

    ordinal: int
    card: int
    name: str
    uuid: str
    pci_address: str
    emulated: bool
    total_bytes: int
    budget_bytes: int
    external_bytes: int
    bound_bytes: int
    failure: str
    bindings: tuple[DieBinding, ...]

    @property
    def free_bytes(self) -> int:
        taken = self.external_bytes + self.bound_bytes
        return 0 if self.failure else max(self.budget_bytes - taken, 0)


@dataclass(frozen=True)
class DieBinding:
    binding_id: int
    replica_id: str
    served_name: str
    bound_bytes: int


def replicas_to_load() -> list[Replica]:
    """What is wanted and not yet taken up, longest waiting first."""
    wanted = Replica.objects.filter(wanted=Wanted.LOADED, state=State.REQUESTED)
    return list(wanted.select_related("artifact").order_by("changed_at", "pk"))


def replicas_to_unload() -> list[Replica]:
    """What is held and no longer wanted, draining ones included: their mode may have become `force`."""
    unwanted = Replica.objects.filter(wanted=Wanted.UNLOADED, state__in=HELD)
    return list(unwanted.select_related("artifact").order_by("changed_at", "pk"))


def pulls_to_run() -> list[Job]:
    """Pulls that nobody has taken up, longest waiting first."""
    queued = Job.objects.filter(kind=Job.Kind.PULL, state=Job.State.QUEUED)
    return list(queued.order_by("created_at", "pk"))


def jobs_newest(limit: int) -> list[Job]:
    return list(Job.objects.order_by("-created_at")[:limit])


def replicas_wanted() -> list[Replica]:
    """What is wanted loaded, whatever became of it, in the order it was asked for."""
    wanted = Replica.objects.filter(wanted=Wanted.LOADED, state__in=LIVE)
    return list(wanted.select_related("artifact").order_by("created_at", "pk"))


def is_wanted(artifact: Artifact, served_name: str, dies: Sequence[int] = ()) -> bool:
    """Whether some replica of that file is wanted under that name; on just these dies, if any are given."""
    wanted = Replica.objects.filter(wanted=Wanted.LOADED, state__in=LIVE)
    named = wanted.filter(artifact=artifact, served_name=served_name)
    return any(not dies or sorted(replica.dies) == sorted(dies) for replica in named)


def is_held(artifact: Artifact, served_name: str, *, quantize: bool = False) -> bool:
    """Whether some wanted replica of that file and name has its memory, or is getting it."""
    held = Replica.objects.filter(wanted=Wanted.LOADED, state__in=HELD)
    return held.filter(artifact=artifact, served_name=served_name, quantize=quantize).exists()


def artifact_of_source(source: str) -> Artifact | None:
    """The model file that was pulled from there last, if any was."""
    return Artifact.objects.filter(source=source).order_by("-pk").first()


def newest_artifacts(limit: int) -> list[Artifact]:
    return list(Artifact.objects.order_by("-pk")[:limit])


def replicas_overview() -> list[Replica]:
    """Every replica that is not unloaded, by name."""
    live = Replica.objects.filter(state__in=LIVE).select_related("artifact")
    return list(live.order_by("served_name", "created_at"))


def any_usable_api_key() -> bool:
    """Whether a key exists that has been neither revoked nor outlived its date."""
    return any(key.is_usable for key in ApiKey.objects.filter(revoked_at__isnull=True))


def dies_of(replica: Replica) -> tuple[int, ...]:
    """The dies it is bound to, else those it was asked for."""
    held = BindingShare.objects.filter(
        binding__replica=replica, binding__released_at__isnull=True
    ).order_by("die__ordinal")
    return tuple(held.values_list("die__ordinal", flat=True)) or tuple(replica.dies)


def bound_bytes_by_die(replica: Replica | None = None) -> dict[int, int]:
    """Held bytes by die ordinal, of one replica or of all; dies without any are absent."""
    held = BindingShare.objects.filter(binding__released_at__isnull=True)
    if replica is not None:
        held = held.filter(binding__replica=replica)
    rows = held.values_list("die__ordinal").annotate(total=Sum("bound_bytes"))
    return dict(rows)


def dies_overview() -> list[DieUse]:
    """The dies found when the server last looked, in order."""
    held = BindingShare.objects.filter(binding__released_at__isnull=True)
    shares = Prefetch("shares", held.select_related("binding__replica"), to_attr="held_shares")
    dies = Die.objects.filter(present=True).select_related("card").prefetch_related(shares)
    return [_die_use(die, die.held_shares) for die in dies]


def _die_use(die: Die, shares: Sequence[BindingShare]) -> DieUse:
    bindings = tuple(
        DieBinding(s.binding.pk, s.binding.replica_id, s.binding.replica.served_name, s.bound_bytes)
        for s in shares
    )
    return DieUse(
        ordinal=die.ordinal,
        card=die.card.ordinal,
        name=die.card.name,
        uuid=die.uuid,
        pci_address=die.pci_address,
        emulated=die.emulated,
        total_bytes=die.total_bytes,
        budget_bytes=die.budget_bytes,
        external_bytes=die.external_bytes,
        bound_bytes=sum(b.bound_bytes for b in bindings),
        failure=die.failure,
        bindings=bindings,
    )


def die_rooms(served_name: str = "") -> list[DieRoom]:
    """The dies as placement sees them, for another replica of `served_name` where one is given."""
    return rooms_of(dies_overview(), served_name)


def rooms_of(dies: Sequence[DieUse], served_name: str = "") -> list[DieRoom]:
    return [
        DieRoom(
            ordinal=die.ordinal,
            card=die.card,
            budget_bytes=die.budget_bytes,
            used_bytes=die.external_bytes + die.bound_bytes,
            failure=die.failure,
            serves_it=any(b.served_name == served_name for b in die.bindings),
        )
        for die in dies
    ]
