"""What operators ask of replicas: load, unload, cancel, retry. Only wishes are written here.

What a replica becomes is for whoever runs it to report, through `transitions`; the exceptions are
replicas that no process holds anything for.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from registry.errors import (
    InvalidName,
    InvalidTransition,
    InvalidValue,
    NameInUse,
    PlacementRefused,
    ReplicaNotFound,
    UnloadNotCancelable,
)
from registry.models import Artifact, Die, Replica
from registry.names import is_served_name
from registry.notify import announce_wanted_changed
from registry.services.audit import audited
from registry.services.replica_jobs import load_job_open, unload_job_cancel, unload_job_open
from registry.services.transitions import KEPT, claim_move, replica_get
from registry.sizes import counted
from registry.states import HELD, LIVE, State, UnloadMode, Wanted

MAX_CONTEXT_LEN = 1 << 20  # tokens; the bound of PANTHEON_CONTEXT_LEN too


def replica_request(
    *,
    artifact: Artifact,
    served_name: str,
    dies: Sequence[int] = (),
    context_len: int = 0,
    quantize: bool = False,
    another: bool = True,
    request_key: str | None = None,
    actor: str,
) -> Replica:
    """Ask for one more replica of `artifact`. A second call with the same `request_key` finds the first's.

    Not for one more with `another` false: then a replica of that file, name and `quantize` is found, and
    tried again if it has failed, unless dies are named. Dies are what tells replicas of one name apart.
    Raises: InvalidName; NameInUse when the name serves another file; InvalidValue; PlacementRefused
    when the dies named do not exist or already hold a replica of that name.
    """
    with audited("replica.load", served_name, actor) as detail:
        detail.update(artifact=artifact.digest, dies=list(dies))
        if request_key is not None:
            earlier = Replica.objects.filter(request_key=request_key).first()
            if earlier is not None:
                detail.update(replica=earlier.pk, repeated=True)
                return earlier
        if not another and not dies:
            wanted = Replica.objects.filter(wanted=Wanted.LOADED, state__in=LIVE)
            same = wanted.filter(artifact=artifact, served_name=served_name, quantize=quantize)
            found = same.first()
            if found is not None:
                detail.update(replica=found.pk, repeated=True)
                _try_again(found, actor)
                return found
        if not is_served_name(served_name):
            raise InvalidName(served_name)
        if not 0 <= context_len <= MAX_CONTEXT_LEN:
            raise InvalidValue("context_len", f"must lie between 0 (default) and {MAX_CONTEXT_LEN}")
        if artifact.context_len and context_len > artifact.context_len:
            raise InvalidValue(
                "context_len",
                f"is {context_len}, but {artifact.name} was trained for"
                f" {counted(artifact.context_len, 'token')}",
            )
        same_name = Replica.objects.filter(served_name=served_name, state__in=LIVE)
        if same_name.exclude(artifact=artifact).exists():
            raise NameInUse(served_name)
        _check_dies(served_name, dies, same_name)
        replica = Replica.objects.create(
            artifact=artifact,
            served_name=served_name,
            dies=list(dies),
            context_len=context_len,
            quantize=quantize,
            request_key=request_key,
        )
        load_job_open(replica, actor)
        detail.update(replica=replica.pk, context_len=context_len)
        announce_wanted_changed()
    return replica


def _check_dies(served_name: str, dies: Sequence[int], same_name: Iterable[Replica]) -> None:
    if not dies:
        return
    if len(set(dies)) != len(dies):
        raise InvalidValue("dies", "names a die twice")
    known = set(Die.objects.filter(present=True).values_list("ordinal", flat=True))
    missing = sorted(set(dies) - known)
    if missing:
        shown = ", ".join(map(str, sorted(known))) or "none"
        raise PlacementRefused(f"There is no die {missing[0]} on this host. Dies: {shown}.")
    for other in same_name:
        shared = sorted(set(dies) & set(other.dies))
        if shared:
            raise PlacementRefused(
                f"Die {shared[0]} already holds a replica of '{served_name}'; choose other dies."
            )


def replica_request_unload(
    *, wanted: str, mode: str = UnloadMode.DRAIN, timeout_s: float | None = None, actor: str
) -> list[Replica]:
    """Ask for the end of every replica of a served name, or of one replica by its id.

    Asking again is harmless; asking again with `force` turns a drain into one. `timeout_s` empty means
    the default. Raises: ReplicaNotFound, InvalidValue.
    """
    with audited("replica.unload", wanted, actor) as detail:
        if mode not in UnloadMode.values:
            raise InvalidValue("mode", "must be drain or force")
        if timeout_s is not None and not 0.0 <= timeout_s <= 86_400.0:
            raise InvalidValue("timeout_s", "must lie between 0 and 86400 seconds")
        detail.update(mode=mode, timeout_s=timeout_s)
        live = Replica.objects.select_related("artifact").filter(state__in=LIVE)
        replicas = list(live.filter(served_name=wanted)) or list(live.filter(pk=wanted))
        if not replicas:
            raise ReplicaNotFound(wanted[:128])
        for replica in replicas:
            _want_unloaded(replica, mode, timeout_s, actor)
        detail["replicas"] = [replica.pk for replica in replicas]
        announce_wanted_changed()
    return replicas


def _want_unloaded(replica: Replica, mode: str, timeout_s: float | None, actor: str) -> None:
    if replica.wanted == Wanted.LOADED:
        unload_job_open(replica, actor)
    elif replica.unload_mode == UnloadMode.FORCE:
        mode = UnloadMode.FORCE  # A force is never taken back by a later drain.
    replica.wanted, replica.unload_mode, replica.unload_timeout_s = Wanted.UNLOADED, mode, timeout_s
    replica.save(update_fields=["wanted", "unload_mode", "unload_timeout_s"])
    if replica.state not in HELD:
        claim_move(replica, State.UNLOADED, reason="Nothing was loaded.")


def replica_cancel_unload(*, replica_id: str, actor: str) -> Replica:
    """Keep a replica whose unload is not finished: draining becomes ready again, at once.

    Whoever unloads therefore moves the row from draining to unloaded *before* freeing anything; when
    that move is refused, the replica is to be served again. Raises: ReplicaNotFound, UnloadNotCancelable.
    """
    replica = replica_get(replica_id)
    with audited("replica.cancel_unload", str(replica), actor):
        replica.refresh_from_db()  # within the transaction: nobody moves it from here on
        if replica.state not in HELD:
            raise UnloadNotCancelable(replica_id, replica.state)
        if replica.wanted == Wanted.LOADED:
            return replica
        if replica.state == State.DRAINING:
            try:
                claim_move(replica, State.READY, reason="The unload was cancelled.")
            except InvalidTransition as error:
                raise UnloadNotCancelable(replica_id, error.old) from error
        else:
            Replica.objects.filter(pk=replica_id).update(**KEPT)
            unload_job_cancel(replica, "The unload was cancelled.")
            replica.refresh_from_db()
        announce_wanted_changed()
    return replica


def replica_retry(*, replica_id: str, actor: str) -> Replica:
    """Try a failed replica again. On a replica that is already on its way, nothing happens.

    Raises: ReplicaNotFound, InvalidTransition.
    """
    replica = replica_get(replica_id)
    with audited("replica.retry", str(replica), actor):
        replica.refresh_from_db()
        if replica.state == State.UNLOADED:
            raise InvalidTransition(replica_id, replica.state, State.REQUESTED)
        _try_again(replica, actor)
    return replica


def _try_again(replica: Replica, actor: str) -> None:
    if replica.state == State.FAILED:
        Replica.objects.filter(pk=replica.pk).update(wanted=Wanted.LOADED)
        claim_move(replica, State.REQUESTED, reason="Asked to try again.", actor=actor)
        announce_wanted_changed()
