"""Malformed GGUF files are refused, quickly, with words that name the place."""

from __future__ import annotations

import os
import random
import time
import tracemalloc
from pathlib import Path

import pytest

from inference.model.errors import GGUFError, ModelError
from inference.model.gguf import read_gguf
from inference.model.gguf.cursor import MAX_HEADER_BYTES
from tests.fakes.gguf_writer import array, build, pair, small_model
from tests.inference.model.gguf.malformed import all_cases

CASES = all_cases()
SMALL_CASES = [case for case in CASES if len(case.content) < 2**20]


def refusal(path) -> GGUFError:
    with pytest.raises(GGUFError) as caught:
        read_gguf(path)
    return caught.value


def test_there_are_enough_cases_with_names_of_their_own():
    assert len(CASES) >= 120
    assert len({case.id for case in CASES}) == len(CASES)


@pytest.mark.parametrize("case", CASES, ids=[case.id for case in CASES])
def test_it_is_refused_with_the_place_and_the_reason(tmp_path, case):
    path = tmp_path / "bad.gguf"
    path.write_bytes(case.content)
    begin = time.process_time()
    error = refusal(path)
    took_s = time.process_time() - begin
    assert error.field.startswith(case.field)
    assert case.reason in error.reason
    assert took_s < 0.2
    assert str(error) == f"{error.field}: {error.reason}."
    assert len(str(error)) < 400 and str(error).isprintable() and str(tmp_path) not in str(error)


@pytest.mark.parametrize("case", SMALL_CASES, ids=[case.id for case in SMALL_CASES])
def test_refusing_takes_little_memory(tmp_path, case):
    """Nothing is allocated for a size that only the file claims."""
    path = tmp_path / "bad.gguf"
    path.write_bytes(case.content)
    tracemalloc.start()
    try:
        refusal(path)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 4 * 2**20


def test_a_file_cut_anywhere_in_its_first_4096_bytes_is_refused(tmp_path):
    content = small_model()
    assert len(content) - 1024 > 4096
    path = tmp_path / "cut.gguf"
    path.write_bytes(content)
    slowest_s = 0.0
    for length in range(4096, -1, -1):
        os.truncate(path, length)
        begin = time.process_time()
        refusal(path)
        slowest_s = max(slowest_s, time.process_time() - begin)
    assert slowest_s < 0.2


def test_a_file_cut_at_random_places_is_refused(tmp_path):
    """Any cut before the end of the last tensor; what follows it is padding."""
    content = small_model()
    end = len(content) - 1024 + 192 + 4 * 144
    path = tmp_path / "cut.gguf"
    for length in random.Random(7).sample(range(end), 200):
        path.write_bytes(content[:length])
        refusal(path)


def test_a_fifo_is_refused_without_waiting_for_a_writer(tmp_path):
    path = tmp_path / "fifo.gguf"
    os.mkfifo(path)
    assert refusal(path).reason == "is not a regular file"


@pytest.mark.parametrize("path", ["/dev/zero", "/dev/null", "/dev", "/proc/self/mem"])
def test_devices_and_directories_are_refused(path):
    assert refusal(Path(path)).field in {"file", "magic"}


def test_a_directory_is_refused(tmp_path):
    assert refusal(tmp_path).reason == "is not a regular file"


def test_a_symlink_to_nothing_is_refused(tmp_path):
    link = tmp_path / "link.gguf"
    link.symlink_to(tmp_path / "nothing")
    assert refusal(link).field == "file"


def test_a_symlink_to_itself_is_refused(tmp_path):
    link = tmp_path / "link.gguf"
    link.symlink_to(link)
    assert refusal(link).field == "file"


def test_a_missing_file_is_refused(tmp_path):
    assert "No such file" in refusal(tmp_path / "missing.gguf").reason


def test_a_path_with_a_nul_is_refused(tmp_path):
    assert refusal(tmp_path / "a\0b.gguf").field == "file"


def test_a_header_beyond_its_limit_is_refused(tmp_path):
    path = tmp_path / "large.gguf"
    content = build([pair("pad", "u8", 0), array("a", "u8", b"", count=MAX_HEADER_BYTES)])
    path.write_bytes(content)
    os.truncate(path, MAX_HEADER_BYTES * 2)
    error = refusal(path)
    assert error.field == "metadata 'a'" and "a header may have" in error.reason


def test_a_file_that_shrinks_while_it_is_parsed_is_refused(tmp_path, monkeypatch):
    """The size was looked at before; the read comes back short."""
    path = tmp_path / "shrinks.gguf"
    path.write_bytes(small_model())
    real_fstat = os.fstat

    calls = []

    def fstat_then_shrink(fd):
        found = real_fstat(fd)
        calls.append(fd)
        if len(calls) == 2:
            os.truncate(path, 1000)
        return found

    monkeypatch.setattr(os, "fstat", fstat_then_shrink)
    assert "became shorter" in refusal(path).reason


def test_control_characters_of_a_name_do_not_reach_the_message(tmp_path):
    path = tmp_path / "bad.gguf"
    path.write_bytes(build([pair("\x1b[31m\n\u202e<b>", 99, b"")]))
    assert refusal(path).field == "metadata '\\x1b[31m\\n\\u202e<b>'"


def test_refusals_are_model_errors():
    """One family for whoever loads a model."""
    assert issubclass(GGUFError, ModelError)
