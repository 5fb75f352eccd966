"""Dies that hang: noticed in time, named, never touched again, and no hindrance to the end of the process."""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np
import pytest

from accel.cuda import hung
from accel.cuda.die import Die, own_bytes
from accel.cuda.hung import Mark
from accel.cuda.inventory import Inventory
from accel.cuda.peer import Crossing
from accel.cuda.upload import uploading
from accel.errors import DieFailed, DieHung
from tests.emulator.bench import image

PATIENCE_S = 0.2
NOTHING = 'extern "C" __global__ void nothing() {}'
CHUNK = 4096


@pytest.fixture(autouse=True)
def _short_patience(monkeypatch) -> None:
    monkeypatch.setattr(hung, "PATIENCE_S", PATIENCE_S)
    monkeypatch.setattr(hung, "REST_S", PATIENCE_S / 4)


def launch(die: Die, times: int = 1) -> None:
    """A kernel in the die's stream."""
    nothing = die.load_module(image(NOTHING)).get_function("nothing")
    nothing.prepare("")
    for _ in range(times):
        nothing.prepared_async_call((1, 1), (32, 1, 1), die.stream)


def hang(emulated, ordinal: int = 0) -> Die:
    """A die with memory, whose kernel never ends."""
    die = Die(ordinal)
    with die.current():
        die.allocate(1 << 20, "a test")
        die.pinned((1024,), np.uint8)
        emulated.hang_at_launch(1)
        launch(die)
    return die


def hung_die(emulated, ordinal: int = 0) -> Die:
    """The same, noticed."""
    die = hang(emulated, ordinal)
    with pytest.raises(DieHung), die.current():
        die.synchronize()
    return die


def test_whoever_waits_is_told_in_time(emulated) -> None:
    die = hang(emulated)
    started_s = time.monotonic()
    with pytest.raises(DieHung) as told, die.current():
        die.synchronize()
    assert PATIENCE_S < time.monotonic() - started_s < 20 * PATIENCE_S
    assert isinstance(told.value, DieFailed)
    assert told.value.ordinal == 0


def test_a_wait_that_has_begun_is_hurried(emulated, monkeypatch) -> None:
    monkeypatch.setattr(hung, "PATIENCE_S", 600.0)
    die, told = hang(emulated), []

    def wait() -> None:
        with pytest.raises(DieHung) as error, die.current():
            die.synchronize()
        told.append(error.value)

    waiting = threading.Thread(target=wait)
    waiting.start()
    time.sleep(0.1)
    with hung.hurried(0.1):
        waiting.join(10)
    assert 0 < told[0].waited_s < 10
    assert die.is_abandoned
    assert not hung.time_is_up()


def test_a_sound_die_is_closed_however_late_it_is(emulated) -> None:
    before = emulated.used_bytes(1)
    with hung.hurried(0.0):
        die = Die(1)
        with die.current():
            die.allocate(1 << 20, "a test")
            launch(die)
        die.close()
    assert not die.is_abandoned
    assert emulated.used_bytes(1) == before


def test_the_words_say_who_how_long_and_what_to_do() -> None:
    assert str(DieHung(3, 61.0)) == (
        "Die 3 failed: it hangs: work that it was given was not done after 61 s. Start the server again"
        " to use it, or the host where that does not help; dmesg may say why."
    )


def test_the_patience_grows_with_the_rows(monkeypatch) -> None:
    monkeypatch.undo()
    assert hung.patience_s([]) == 60
    assert hung.patience_s([Mark(None, None, 2048), Mark(None, None, 2048)]) == 60 + 512


def test_a_step_of_many_rows_is_given_time(emulated) -> None:
    """Each poll lets one launch of a lazy stream run, so these take longer than the patience without rows."""
    emulated.reset(num_dies=1, lazy=True)
    die = Die(0)
    with die.current():
        step = die.new_event()
        die.record(step)
        launch(die, times=600)
        started_s = time.monotonic()
        die.synchronize([Mark(die, step, 400)])
    assert time.monotonic() - started_s > PATIENCE_S
    die.close()


@pytest.mark.parametrize("is_noticed", [True, False])
def test_closing_returns_and_gives_nothing_back(emulated, is_noticed) -> None:
    """Freeing would wait for the die. What it holds is others' from then on, as far as anybody counts."""
    die = (hung_die if is_noticed else hang)(emulated)
    die.close()
    die.close()
    assert die.is_abandoned
    assert own_bytes(0) == 0
    assert emulated.used_bytes(0) >= 1 << 20


def test_what_is_dropped_is_not_freed(emulated) -> None:
    """The objects of pycuda give back what they stand for when nobody refers to them any more."""
    die = hung_die(emulated)
    die.close()
    del die
    assert emulated.used_bytes(0) >= 1 << 20
    assert not emulated.num_stuck_calls()


def test_the_thread_that_noticed_is_of_use_afterwards(emulated) -> None:
    hung_die(emulated, 0)
    other = Die(1)
    with other.current():
        launch(other)
        other.synchronize()
    other.close()
    assert emulated.num_contexts() == 0


def test_a_hung_die_is_not_opened_again(emulated) -> None:
    hung_die(emulated)
    with pytest.raises(DieHung, match="Die 0 failed: it hangs"):
        Die(0)


def test_other_contexts_of_the_die_are_abandoned_as_well(emulated) -> None:
    neighbour = Die(0)
    hung_die(emulated)
    started_s = time.monotonic()
    neighbour.close()
    assert neighbour.is_abandoned
    assert time.monotonic() - started_s < PATIENCE_S, "what is known is not waited for"


def test_an_inventory_lists_it_without_asking_it(emulated) -> None:
    inventory = Inventory()
    inventory.measure()
    hung_die(emulated)
    inventory.try_out([0, 1])
    first, second = inventory.measure()
    assert first.failure.startswith("it hangs: ")
    assert not second.failure
    inventory.close()


def test_an_upload_ends(emulated, monkeypatch) -> None:
    """Whose chunk the die does not take; its staging is left where it is, and not waited for again."""
    monkeypatch.setattr(hung, "PATIENCE_S", 1.0)
    die = Die(0)
    with die.current():
        region = die.allocate(8 * CHUNK, "a test")

    def hang_soon(num_bytes: int) -> None:
        emulated.hang_die(0)

    started_s = time.monotonic()
    with pytest.raises(DieHung), die.current(), uploading(die, hang_soon, CHUNK) as upload:
        upload.send(region.address, np.zeros(8 * CHUNK, np.uint8))
    die.close()
    assert time.monotonic() - started_s < 1.9
    other = Die(1)
    with other.current():  # the turn was given back
        region = other.allocate(CHUNK, "a test")
        with uploading(other, lambda _num_bytes: None, CHUNK) as upload:
            upload.send(region.address, np.zeros(CHUNK, np.uint8))
    other.close()


@pytest.mark.parametrize("hangs", [0, 1])
def test_a_trial_copy_between_dies_names_the_one_that_hangs(emulated, monkeypatch, hangs) -> None:
    source, target = Die(0), Die(1)
    die, method = ((source, "copy_in"), (target, "fill_zero"))[hangs]
    given = getattr(die, method)

    def hang_there(*arguments) -> None:
        emulated.hang_die(hangs)
        given(*arguments)

    monkeypatch.setattr(die, method, hang_there)
    with pytest.raises(DieHung) as told:
        Crossing(source, target, CHUNK)
    assert told.value.ordinal == hangs
    for each in (source, target):
        each.close()
    assert target.is_abandoned
    assert source.is_abandoned == (hangs == 0), "the source waits for nobody yet"


EXIT = """
import sys
from accel.cuda import driver, hung
from accel.cuda.die import Die
from accel.errors import DieHung
from tests.accel.cuda.test_hung import hang
from tests.emulator import emulated_driver

driver.use_library(library := emulated_driver.library())
emulated = emulated_driver.EmulatedDriver(library)
emulated.reset(num_dies=1)
hung.PATIENCE_S = 0.1
kept = die = hang(emulated)
try:
    with die.current():
        die.synchronize()
except DieHung:
    print("hung")
"""


def test_the_process_ends(emulated) -> None:
    """The interpreter drops everything as it ends, but not this."""
    root = Path(__file__).parents[3]
    done = subprocess.run(
        [sys.executable, "-c", EXIT],
        cwd=root,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "hung\n", "")
