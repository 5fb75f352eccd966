"""The supervisor: turns what the database wants into loaded replicas, and tells it what became of them.

Owns the only bridge between the ORM and the engine: one thread that reads what is wanted, one that
loads (one replica at a time), one per draining replica. Runs no model and serves no request.
"""

from __future__ import annotations

import fcntl
import logging
import queue
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import IO

from django.db import close_old_connections
from django.db.utils import DatabaseError

from accel.cuda import hung
from accel.errors import AccelError
from accel.host import available_bytes
from inference.dies import DieWatch
from inference.engine.pressure import PressureGauge
from inference.errands import Errands
from inference.loading import EngineSettings, LoadPlan, load_replica
from inference.model.errors import ModelError
from inference.outcomes import Outcomes
from inference.placing import Placer
from inference.pull_jobs import PullJobs
from inference.runtime import Runtime, ServedReplica
from inference.text.errors import TextError
from registry import selectors, services
from registry.errors import InvalidTransition, PathRefused, RegistryError
from registry.models import Replica
from registry.notify import wanted_changed
from registry.states import State, UnloadMode, Wanted

logger = logging.getLogger(__name__)

POLL_S = 2.0  # another process (a command) may change what is wanted without waking us
PROGRESS_S = 0.25  # progress rows are written at most this often
DRAIN_POLL_S = 0.25  # a drain looks this often whether it was forced or cancelled
# For all that a stop waits for: a load ends at its next word of progress, such as between kernels,
# and what waits for a die that hangs somewhat earlier.
STOP_WAIT_S, DIE_WAIT_S = 15.0, 10.0

_NO_DATABASE = "The database could not be used while it was loaded: {}."


class AlreadyRunning(RuntimeError):
    def __init__(self, lock_path: Path) -> None:
        self.lock_path = lock_path
        super().__init__(
            f"Another Pantheon process serves the models of {lock_path.parent}; stop it first, or set"
            " PANTHEON_DATA_DIR to another folder."
        )


class LoadStopped(Exception):
    """The supervisor stops: the load in progress is given up where it stands."""


@dataclass(frozen=True)
class LoadProgress:
    """What a start-up screen shows of a load. `context_len` is known once it is ready."""

    served_name: str
    phase: str
    share: float
    state: str
    reason: str = ""
    context_len: int = 0


class Supervisor:
    """Start once per process; `stop` drains nothing and frees everything."""

    def __init__(
        self,
        runtime: Runtime,
        settings: EngineSettings,
        data_dir: Path,
        drain_s: float,
        *,
        load_first: Sequence[str] = (),
        dies: DieWatch | None = None,
    ) -> None:
        """`load_first`: served names, in the order in which they are loaded before any others.

        `dies`: where models go first; None: all run on the host.
        """
        self._rank = {name: rank for rank, name in enumerate(dict.fromkeys(load_first))}
        self._runtime, self._settings, self._drain_s = runtime, settings, drain_s
        self._dies, self._placer = dies, Placer(dies)
        self._pressure = PressureGauge(available_bytes)
        self._pulls = PullJobs()
        self._lock_path = data_dir / "engine.lock"
        self._lock_file: IO[str] | None = None
        self._wake = threading.Event()
        self._stopping = self._loads_no_more = False
        self._outcomes = Outcomes()
        self._to_load: queue.SimpleQueue[Replica | None] = queue.SimpleQueue()  # None: stop
        # A daemon, unlike an executor's: the interpreter would wait for that before it runs any `stop`.
        self._loader = threading.Thread(target=self._load_all, name="load", daemon=True)
        self._thread = threading.Thread(target=self._run, name="supervisor", daemon=True)
        self._errands = Errands()  # one for each replica that is unloaded or has failed
        self._busy: set[str] = set()  # replicas some thread is loading or draining
        self._busy_lock = threading.Lock()
        self.watchers: list[Callable[[LoadProgress], None]] = []

    def start(self) -> None:
        """Find the dies and restore what the database wants. Raises: AlreadyRunning, AccelError."""
        lock_file = self._lock_path.open("w")
        try:
            fcntl.flock(lock_file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            lock_file.close()
            raise AlreadyRunning(self._lock_path) from error
        self._lock_file = lock_file
        if self._dies is not None:
            self._dies.find()
            self._dies.start()
            for die in selectors.dies_overview():
                logger.info("die %s on card %s: %s", die.ordinal, die.card, die.name)
        self._pressure.start()
        self._pulls.start()
        for replica in services.replicas_reset_at_boot():
            logger.info("restoring %s (%s)", replica.served_name, replica.public_id)
        wanted_changed.connect(self._on_wanted_changed)
        self._loader.start()
        self._thread.start()

    def load_no_more(self) -> None:
        """Give up the load and the pull in progress at their next word, and begin no other. Does not wait."""
        self._loads_no_more = True
        self._to_load.put(None)
        self._pulls.stop()

    def stop(self) -> None:
        """End every sequence with an error sentence, give all memory back and say so in the database.

        Safe to call twice. Waits for the step of a load in progress, some seconds while kernels compile.
        """
        if self._lock_file is None:
            return
        self.load_no_more()
        self._stopping = True
        self._outcomes.stop()
        self._wake.set()
        wanted_changed.disconnect(self._on_wanted_changed)
        deadline_s = time.monotonic() + STOP_WAIT_S
        with hung.hurried(DIE_WAIT_S):
            for join in (self._thread.join, self._loader.join, self._pulls.join):
                join(max(0.0, deadline_s - time.monotonic()))
            self._pressure.stop()
            for replica in self._runtime.replicas():
                with suppress(KeyError):  # an unload was faster
                    self._runtime.remove(replica.replica_id)
                    replica.close("The server is shutting down.")
            self._errands.join(deadline_s)
            if self._dies is not None:
                self._dies.stop()
        try:
            services.replicas_stopped()
        except DatabaseError:
            logger.exception("the stop could not be recorded")
        self._lock_file.close()
        self._lock_file = None

    def _on_wanted_changed(self, **_: object) -> None:
        self._wake.set()

    # ---- reconciling: the database's wishes against what this process does ---------------------

    def _run(self) -> None:
        while not self._stopping:
            self._wake.clear()
            try:
                self._reconcile()
            except DatabaseError:
                logger.exception("the database cannot be read; trying again in %s s", POLL_S)
            except Exception:  # the thread's boundary: without it nothing is ever loaded again
                logger.exception(
                    "looking at what is wanted met a bug; trying again in %s s", POLL_S
                )
            finally:
                close_old_connections()
            self._wake.wait(POLL_S)

    def _reconcile(self) -> None:
        for replica in selectors.replicas_to_unload():
            if self._claim(replica.public_id):
                self._errands.start("unload", self._released, self._unload, replica)
        for replica in sorted(selectors.replicas_to_load(), key=self._turn):
            if self._claim(replica.public_id):
                self._to_load.put(replica)

    def _turn(self, replica: Replica) -> tuple[int, datetime]:
        """A restart moves all rows at once, so that only their beginnings tell what was wanted first."""
        return self._rank.get(replica.served_name, len(self._rank)), replica.created_at

    def _claim(self, replica_id: str) -> bool:
        with self._busy_lock:
            if replica_id in self._busy or self._stopping:
                return False
            self._busy.add(replica_id)
            return True

    def _released(self, work: Callable[[Replica], None], replica: Replica) -> None:
        try:
            work(replica)
        except InvalidTransition as error:
            logger.info("%s changed meanwhile: %s", replica.public_id, error)
        except LoadStopped:
            logger.info("%s was not loaded: the server stops", replica.served_name)
        except DatabaseError:
            logger.exception("the outcome of %s could not be recorded", replica.public_id)
        finally:
            with self._busy_lock:
                self._busy.discard(replica.public_id)
            close_old_connections()
            self._wake.set()

    # ---- loading ---------------------------------------------------------------------------------

    def _load_all(self) -> None:
        while (replica := self._to_load.get()) is not None and not self._loads_no_more:
            self._released(self._load, replica)

    def _load(self, replica: Replica) -> None:
        name, replica_id = replica.served_name, replica.public_id
        progress = self._progress_writer(replica)
        started = time.monotonic()
        dies: tuple[int, ...] = ()
        try:
            if not Path(replica.artifact.path).is_file():
                raise PathRefused(
                    replica.artifact.path, "there is no such file any more; pull it again"
                )
            dies = self._placer.place(replica)
            self._outcomes.move(replica_id, State.LOADING)
            plan = LoadPlan(
                replica_id=replica_id,
                served_name=name,
                path=Path(replica.artifact.path),
                digest=replica.artifact.digest,
                context_len=replica.context_len,
                dies=dies,
                quantise=replica.quantize,
            )
            served = load_replica(
                plan,
                self._settings,
                progress,
                self._on_worker_failure,
                admit=lambda exact: self._placer.charge(replica, exact),
                pressure=self._pressure,
            )
        except DatabaseError as error:
            self._load_failed(replica, _NO_DATABASE.format(error))
            return
        except InvalidTransition:  # unloaded before its turn came, which is no failure
            raise
        except (RegistryError, ModelError, TextError, AccelError, OSError, MemoryError) as error:
            self._load_failed(replica, str(error) or type(error).__name__)
            self._placer.look_after(dies, error)
            return
        except LoadStopped:
            raise
        except Exception:  # the thread's boundary: a bug met by one model must not keep others out
            logger.exception("loading %s met a bug", name)
            self._load_failed(
                replica, "The server met a bug while loading it; its log has the details."
            )
            return
        try:
            self._hand_over(replica, served)
        except BaseException as error:  # nobody else would ever free it
            with suppress(KeyError):
                self._runtime.remove(replica_id)
            served.close("The model could not be put into service.")
            if not isinstance(error, DatabaseError):
                raise
            self._load_failed(replica, _NO_DATABASE.format(error))
            return
        logger.info("%s was loaded in %.1f s", name, time.monotonic() - started)

    def _hand_over(self, replica: Replica, served: ServedReplica) -> None:
        """Put a loaded replica into service. Its row says ready only after it is.

        Raises: LoadStopped; InvalidTransition, when it was moved meanwhile; DatabaseError.
        """
        if self._loads_no_more:
            raise LoadStopped
        if services.replica_get(replica.public_id).wanted == Wanted.UNLOADED:
            served.close("The model was unloaded before it was ready.")
            self._outcomes.move(replica.public_id, State.UNLOADED)
            return
        self._runtime.add(served)
        self._outcomes.move(
            replica.public_id,
            State.READY,
            backend=served.backend,
            actual_context_len=served.context_len,
            num_slots=self._settings.num_slots,
        )
        self._tell(
            LoadProgress(
                replica.served_name, "ready", 1.0, State.READY, context_len=served.context_len
            )
        )

    def _load_failed(self, replica: Replica, reason: str) -> None:
        logger.warning("%s could not be loaded: %s", replica.served_name, reason)
        self._outcomes.move(replica.public_id, State.FAILED, reason)
        self._tell(LoadProgress(replica.served_name, "failed", 0.0, State.FAILED, reason))

    def _progress_writer(self, replica: Replica) -> Callable[[str, float], None]:
        written = 0.0

        def progress(phase: str, share: float) -> None:
            nonlocal written
            if self._loads_no_more:
                raise LoadStopped
            self._tell(LoadProgress(replica.served_name, phase, share, State.LOADING))
            now = time.monotonic()
            if now - written >= PROGRESS_S:
                written = now
                self._outcomes.progress(replica.public_id, phase, share)

        return progress

    def _tell(self, progress: LoadProgress) -> None:
        for watcher in self.watchers:
            watcher(progress)

    # ---- unloading and failing -------------------------------------------------------------------

    def _unload(self, replica: Replica) -> None:
        replica_id = replica.public_id
        if replica.state == State.READY:
            services.replica_transition(replica_id, State.DRAINING)
        serving = any(r.replica_id == replica_id for r in self._runtime.replicas())
        if serving:
            self._runtime.drain(replica_id)
            self._wait_drained(replica_id)
        with self._placer.freeing(replica):
            try:
                services.replica_transition(replica_id, State.UNLOADED)
            except InvalidTransition:  # cancelled while it drained: the row is ready again
                if serving:
                    self._runtime.undrain(replica_id)
                raise
            if serving:
                served = self._runtime.remove(replica_id)
                served.close("The model was unloaded while this request was running.")
        logger.info("%s is unloaded", replica.served_name)

    def _wait_drained(self, replica_id: str) -> None:
        """Until no request is left, time is up, or the operator forces or cancels the unload."""
        started = time.monotonic()
        while not self._stopping:
            row = services.replica_get(replica_id)
            if row.wanted == Wanted.LOADED or row.unload_mode == UnloadMode.FORCE:
                return
            timeout_s = self._drain_s if row.unload_timeout_s is None else row.unload_timeout_s
            left_s = started + timeout_s - time.monotonic()
            if left_s <= 0 or self._runtime.wait_drained(replica_id, min(DRAIN_POLL_S, left_s)):
                return

    def _on_worker_failure(self, replica_id: str, reason: str) -> None:
        """Called on the worker's own thread, which must not touch the ORM: hand over."""
        self._errands.start("fail", self._fail, replica_id, reason)

    def _fail(self, replica_id: str, reason: str) -> None:
        try:
            served = self._runtime.remove(replica_id)
            served.close(reason)
            self._outcomes.move(replica_id, State.FAILED, reason)
            self._placer.look_after(served.dies)
        except (KeyError, InvalidTransition) as error:
            logger.info("replica %s was gone already: %s", replica_id, error)
        except DatabaseError:
            logger.exception("that %s failed was never recorded", replica_id)
        finally:
            close_old_connections()
