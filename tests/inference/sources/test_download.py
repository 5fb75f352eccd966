"""Downloads: complete, resumed, and never what was not promised."""

from __future__ import annotations

import itertools
import json
import os
from collections import namedtuple

import httpx
import pytest

from inference.sources import download as module
from inference.sources.download import RemoteFile, download
from inference.sources.errors import (
    DigestMismatch,
    DiskFull,
    LengthMismatch,
    SourceUnavailable,
    TooLarge,
)
from inference.sources.fetch import Fetcher
from tests.inference.sources.wheels import sha256

BODY = bytes(range(256)) * 4096
PATH = "/files/a.bin"


@pytest.fixture
def part(tmp_path):
    return tmp_path / "a.part"


def fetch(network, remote, part, seen=None):
    with Fetcher(network) as fetcher:
        return download(
            fetcher, remote, part, lambda *step: (seen if seen is not None else []).append(step)
        )


def remote_of(server, *, sha=None, size=None):
    return RemoteFile(f"{server.url}{PATH}", "a.bin", sha, size)


def begin_and_stop(server, remote, part, num_bytes):
    """A download that its caller ends after some bytes."""

    class Stop(Exception):
        pass

    def stop(done, total):
        if done >= num_bytes:
            raise Stop

    with pytest.raises(Stop), Fetcher(server.network()) as fetcher:
        download(fetcher, remote, part, stop)
    assert num_bytes <= part.stat().st_size < len(BODY)


def test_it_works(server, part):
    server.files[PATH] = BODY
    seen = []
    fetched = fetch(
        server.network(), remote_of(server, sha=sha256(BODY), size=len(BODY)), part, seen
    )
    assert (fetched.path, fetched.name) == (part, "a.bin")
    assert (fetched.digest, fetched.num_bytes) == (sha256(BODY), len(BODY))
    assert part.read_bytes() == BODY
    assert seen == sorted(seen) and seen[0] == (0, len(BODY)) and seen[-1] == (len(BODY), len(BODY))
    assert list(part.parent.iterdir()) == [part]


def test_an_unpromised_digest_is_computed(server, part):
    server.files[PATH] = BODY
    assert fetch(server.network(), remote_of(server), part).digest == sha256(BODY)


def test_an_empty_file_is_a_file(server, part):
    server.files[PATH] = b""
    assert fetch(server.network(), remote_of(server), part).digest == sha256(b"")


def test_a_connection_that_breaks_is_taken_up_again_where_it_broke(server, part):
    server.files[PATH], server.etags[PATH] = BODY, '"v1"'
    server.drops = [300_000, 200_000]
    assert fetch(server.network(), remote_of(server), part).digest == sha256(BODY)
    assert server.ranges[0] is None and len(server.ranges) == 3
    begins = [int(text.removeprefix("bytes=").removesuffix("-")) for text in server.ranges[1:]]
    assert begins == [300_000, 500_000]
    assert part.read_bytes() == BODY


def test_a_connection_that_always_breaks_is_given_up_and_the_part_kept(server, part):
    server.files[PATH], server.etags[PATH] = BODY, '"v1"'
    server.drops = [1000] * 10
    with pytest.raises(SourceUnavailable) as caught:
        fetch(server.network(), remote_of(server), part)
    assert caught.value.transient
    assert len(server.ranges) == module.ATTEMPTS
    assert part.stat().st_size == 1000 * module.ATTEMPTS


def test_a_pull_that_was_stopped_is_resumed_by_the_next(server, part):
    server.files[PATH], server.etags[PATH] = BODY, '"v1"'
    remote = remote_of(server)
    begin_and_stop(server, remote, part, 400_000)
    have, seen = part.stat().st_size, []
    assert fetch(server.network(), remote, part, seen).digest == sha256(BODY)
    assert server.ranges[-1] == f"bytes={have}-" and seen[0] == (have, len(BODY))


def test_a_promised_digest_is_enough_to_resume(server, part):
    """Hosts without ETag: what is wrong with the whole is noticed at the end."""
    server.files[PATH] = BODY
    remote = remote_of(server, sha=sha256(BODY))
    begin_and_stop(server, remote, part, 400_000)
    assert fetch(server.network(), remote, part).digest == sha256(BODY)
    assert server.ranges[-1] is not None


def test_without_etag_and_digest_nothing_is_resumed(server, part):
    server.files[PATH] = BODY
    remote = remote_of(server)
    begin_and_stop(server, remote, part, 400_000)
    server.files[PATH] = BODY[::-1]
    assert fetch(server.network(), remote, part).digest == sha256(BODY[::-1])
    assert server.ranges[-1] is None


def test_a_weak_etag_proves_nothing(server, part):
    server.files[PATH], server.etags[PATH] = BODY, 'W/"v1"'
    remote = remote_of(server)
    begin_and_stop(server, remote, part, 400_000)
    fetch(server.network(), remote, part)
    assert server.ranges[-1] is None


def test_a_remote_file_that_changed_is_fetched_from_the_start(server, part):
    server.files[PATH], server.etags[PATH] = BODY, '"v1"'
    begin_and_stop(server, remote_of(server), part, 400_000)
    server.files[PATH], server.etags[PATH] = BODY[::-1], '"v2"'
    assert fetch(server.network(), remote_of(server), part).digest == sha256(BODY[::-1])


def test_a_host_that_cannot_resume_sends_it_all_again(server, part):
    server.files[PATH], server.etags[PATH] = BODY, '"v1"'
    begin_and_stop(server, remote_of(server), part, 400_000)
    server.resumable = False
    assert fetch(server.network(), remote_of(server), part).digest == sha256(BODY)
    assert part.read_bytes() == BODY


def test_a_part_of_another_url_is_not_continued(server, part):
    server.files[PATH], server.etags[PATH] = BODY, '"v1"'
    begin_and_stop(server, remote_of(server), part, 400_000)
    note = part.with_name("a.part.json")
    note.write_text(json.dumps(json.loads(note.read_text()) | {"url": "https://other/"}))
    fetch(server.network(), remote_of(server), part)
    assert server.ranges[-1] is None


@pytest.mark.parametrize("note", ["", "null", "[]", "{}", '{"url": 1}', "\0"])
def test_an_unreadable_note_means_from_the_start(server, part, note):
    server.files[PATH] = BODY
    part.write_bytes(b"old")
    part.with_name("a.part.json").write_text(note)
    assert fetch(server.network(), remote_of(server), part).digest == sha256(BODY)


def test_a_part_longer_than_the_file_is_cut(server, part):
    server.files[PATH], server.etags[PATH] = BODY, '"v1"'
    begin_and_stop(server, remote_of(server), part, 400_000)
    part.write_bytes(BODY + b"more")
    assert fetch(server.network(), remote_of(server), part).digest == sha256(BODY)


def test_a_complete_part_is_verified_not_trusted(server, part):
    """Killed between the last byte and the end: the next pull asks for the last byte only."""
    server.files[PATH], server.etags[PATH] = BODY, '"v1"'
    begin_and_stop(server, remote_of(server), part, 400_000)
    part.write_bytes(BODY)
    assert fetch(server.network(), remote_of(server), part).digest == sha256(BODY)
    assert server.ranges[-1] == f"bytes={len(BODY) - 1}-"


def test_a_damaged_part_is_noticed_and_fetched_anew(server, part):
    server.files[PATH] = BODY
    remote = remote_of(server, sha=sha256(BODY))
    begin_and_stop(server, remote, part, 400_000)
    with part.open("r+b") as file:
        file.write(b"damage")
    assert fetch(server.network(), remote, part).digest == sha256(BODY)
    assert server.ranges[-2] is not None and server.ranges[-1] is None


def test_wrong_bytes_are_discarded(server, part):
    server.files[PATH] = BODY
    with pytest.raises(DigestMismatch) as caught:
        fetch(server.network(), remote_of(server, sha="0" * 64), part)
    assert (caught.value.expected, caught.value.actual) == ("0" * 64, sha256(BODY))
    assert part.stat().st_size == 0 and len(server.ranges) == 1


def test_another_length_than_promised_is_refused_before_the_body(server, part):
    server.files[PATH] = BODY
    with pytest.raises(LengthMismatch):
        fetch(server.network(), remote_of(server, size=len(BODY) + 1), part)
    assert part.stat().st_size == 0


@pytest.mark.parametrize("length", ["10", "1000"])
def test_a_body_that_differs_from_its_own_length_is_refused(internet, part, length):
    internet.add("https://h.example/a", b"x" * 100, headers={"Content-Length": length})
    with pytest.raises(LengthMismatch):
        fetch(internet.network(), RemoteFile("https://h.example/a", "a", None, None), part)
    assert part.stat().st_size == 0


def test_a_file_over_the_limit_is_refused_before_the_body(server, part):
    server.files[PATH] = BODY
    with pytest.raises(TooLarge):
        fetch(server.network(max_file_bytes=len(BODY) - 1), remote_of(server), part)
    assert part.stat().st_size == 0


def test_an_endless_body_is_cut_off_at_the_limit(internet, part):
    pieces = []

    def endless():
        while True:
            pieces.append(1)
            yield bytes(1000)

    internet.add("https://h.example/a", content=endless())
    with pytest.raises(TooLarge):
        fetch(
            internet.network(max_file_bytes=10_000),
            RemoteFile("https://h.example/a", "a", None, None),
            part,
        )
    assert len(pieces) == 11 and part.stat().st_size <= 10_000


def test_a_body_without_length_is_fetched(internet, part):
    internet.add("https://h.example/a", content=iter([b"abc", b"def"]))
    seen = []
    fetched = fetch(
        internet.network(), RemoteFile("https://h.example/a", "a", None, None), part, seen
    )
    assert fetched.digest == sha256(b"abcdef") and seen == [(0, None), (3, None), (6, None)]


def test_a_full_disk_is_noticed_before_the_body(server, part, monkeypatch):
    server.files[PATH] = BODY
    usage = namedtuple("usage", "total used free")
    monkeypatch.setattr(
        module.shutil,
        "disk_usage",
        lambda folder: usage(0, 0, module.DISK_RESERVE_BYTES + len(BODY) - 1),
    )
    with pytest.raises(DiskFull) as caught:
        fetch(server.network(), remote_of(server), part)
    assert (caught.value.wanted_bytes, caught.value.free_bytes) == (len(BODY), len(BODY) - 1)
    assert part.stat().st_size == 0


def test_a_body_without_end_leaves_the_database_its_room(internet, part, monkeypatch):
    """Its length is not told beforehand; the disk is asked again while it comes."""
    usage = namedtuple("usage", "total used free")
    size = module.DISK_RESERVE_BYTES + 3 * module.ROOM_BYTES

    def disk_usage(_folder):
        return usage(size, 0, size - (part.stat().st_size if part.exists() else 0))

    monkeypatch.setattr(module.shutil, "disk_usage", disk_usage)
    internet.add("https://h.example/a", content=itertools.repeat(bytes(1 << 20)))
    with pytest.raises(DiskFull) as caught:
        fetch(internet.network(), RemoteFile("https://h.example/a", "a", None, None), part)
    assert caught.value.resumable
    assert module.ROOM_BYTES < part.stat().st_size <= 3 * module.ROOM_BYTES


def test_a_refusal_is_not_repeated_but_an_outage_is(internet, part):
    remote = RemoteFile("https://h.example/a", "a", None, None)
    internet.add(remote.url, status=404)
    with pytest.raises(SourceUnavailable):
        fetch(internet.network(), remote, part)
    assert len(internet.requests) == 1
    internet.add(remote.url, status=503)
    with pytest.raises(SourceUnavailable):
        fetch(internet.network(), remote, part)
    assert len(internet.requests) == 1 + module.ATTEMPTS


@pytest.mark.parametrize(
    "content_range",
    ["", "bytes 0-9/100", "bytes 40-99/101", "bytes 41-99/100", "bytes 40-99/*", "x"],
)
def test_a_piece_that_was_not_asked_for_is_not_used(internet, part, content_range):
    """Then the whole file is fetched."""
    url, body = "https://h.example/a", bytes(range(100))
    part.write_bytes(body[:40])
    note = {"url": url, "etag": '"v1"', "num_bytes": 100}
    part.with_name("a.part.json").write_text(json.dumps(note))
    asked = []

    def handle(request):
        asked.append(request.headers.get("Range"))
        if asked[-1] is None:
            return httpx.Response(200, stream=httpx.ByteStream(body))
        headers = {"Content-Range": content_range} if content_range else {}
        return httpx.Response(206, headers=headers, stream=httpx.ByteStream(b"w" * 60))

    network = internet.network(transport=httpx.MockTransport(handle))
    assert fetch(network, RemoteFile(url, "a", None, None), part).digest == sha256(body)
    assert asked == ["bytes=40-", None]


@pytest.mark.parametrize(("status", "attempts"), [(503, 4), (429, 4), (403, 1), (404, 1)])
def test_an_outage_while_resuming_costs_nothing_of_the_part(internet, part, status, attempts):
    url, body = "https://h.example/a", bytes(range(100))
    part.write_bytes(body[:40])
    note = {"url": url, "etag": '"v1"', "num_bytes": 100}
    part.with_name("a.part.json").write_text(json.dumps(note))
    remote = RemoteFile(url, "a", None, None)
    internet.add(url, status=status)
    with pytest.raises(SourceUnavailable):
        fetch(internet.network(), remote, part)
    assert len(internet.requests) == attempts and part.stat().st_size == 40
    headers = {"Content-Range": "bytes 40-99/100"}
    internet.add(url, body[40:], status=206, headers=headers)
    assert fetch(internet.network(), remote, part).digest == sha256(body)


def test_a_piece_shorter_than_the_rest_is_noticed(internet, part):
    url = "https://h.example/a"
    part.write_bytes(bytes(40))
    note = {"url": url, "etag": '"v1"', "num_bytes": 100}
    part.with_name("a.part.json").write_text(json.dumps(note))
    headers = {"Content-Range": "bytes 40-99/100"}
    internet.add(url, content=iter([bytes(50)]), status=206, headers=headers)
    with pytest.raises(LengthMismatch):
        fetch(internet.network(), RemoteFile(url, "a", None, None), part)


def test_a_range_that_no_longer_exists_starts_over(internet, part):
    url = "https://h.example/a"
    part.write_bytes(bytes(40))
    note = {"url": url, "etag": '"v1"', "num_bytes": 100}
    part.with_name("a.part.json").write_text(json.dumps(note))

    def handle(request):
        if "Range" in request.headers:
            return httpx.Response(416)
        return httpx.Response(200, stream=httpx.ByteStream(b"new"))

    network = internet.network(transport=httpx.MockTransport(handle))
    assert fetch(network, RemoteFile(url, "a", None, None), part).digest == sha256(b"new")


def test_descriptors_are_closed_whatever_happens(server, part):
    server.files[PATH], before = BODY, len(os.listdir("/proc/self/fd"))
    for _ in range(3):
        with pytest.raises(DigestMismatch):
            fetch(server.network(), remote_of(server, sha="0" * 64), part)
    assert len(os.listdir("/proc/self/fd")) <= before + 1
