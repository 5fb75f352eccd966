"""Pulling from the hub: which file is meant, and what is promised about it."""

from __future__ import annotations

import json

import pytest

from inference.sources import parse_source
from inference.sources.errors import (
    DigestMismatch,
    ForbiddenAddress,
    NoModelFile,
    SourceError,
    SourceUnavailable,
)
from inference.sources.pull import PulledFile, pull
from tests.inference.sources.wheels import GGUF, sha256

COMMIT = "c0ffee" * 6 + "c0ff"


def files_of(models_dir):
    return sorted(
        p.relative_to(models_dir).as_posix() for p in models_dir.rglob("*") if p.is_file()
    )


def offer(internet, *files, **changes):
    listing = {"sha": COMMIT, "siblings": [sibling(*file) for file in files]} | changes
    url = "https://huggingface.co/api/models/o/r?blobs=true"
    internet.add(url, json.dumps(listing).encode())
    for name, content in files:
        serve(internet, name, content)


def sibling(name, content):
    return {
        "rfilename": name,
        "size": len(content),
        "lfs": {"sha256": sha256(content), "size": len(content)},
    }


def serve(internet, name, content):
    """As the hub does: a redirect to a signed URL of its store."""
    store = f"https://cdn.example/{sha256(content)}?sig=1"
    internet.redirect(f"https://huggingface.co/o/r/resolve/{COMMIT}/{name}", store)
    internet.add(store, content)


def pulled_from(internet, models_dir, text="hf:o/r", **changes):
    return pull(parse_source(text), models_dir, network=internet.network(**changes))


def test_it_works(internet, models_dir):
    offer(internet, ("m-Q4_K_M.gguf", GGUF), ("README.md", b"#"))
    pulled = pulled_from(internet, models_dir)
    assert pulled == PulledFile(models_dir / "m-Q4_K_M.gguf", sha256(GGUF), len(GGUF))
    assert files_of(models_dir) == ["m-Q4_K_M.gguf"]


def test_what_is_here_already_is_not_fetched_again(internet, models_dir):
    offer(internet, ("m.gguf", GGUF))
    first = pulled_from(internet, models_dir)
    internet.requests.clear()
    assert pulled_from(internet, models_dir) == first
    assert internet.urls() == ["https://huggingface.co/api/models/o/r?blobs=true"]


@pytest.mark.parametrize(
    ("wanted", "found"),
    [
        ("m-Q4_K_M.gguf", "m-Q4_K_M.gguf"),
        ("Q8_0", "m-Q8_0.gguf"),
        ("q8_0", "m-Q8_0.gguf"),
        ("sub/m-F16.gguf", "m-F16.gguf"),
        ("F16", "m-F16.gguf"),
    ],
)
def test_a_file_is_named_by_its_path_or_its_format(internet, models_dir, wanted, found):
    names = ("m-Q4_K_M.gguf", "m-Q8_0.gguf", "sub/m-F16.gguf", "m-IQ8_0.gguf")
    offer(internet, *((name, GGUF + name.encode()) for name in names))
    assert pulled_from(internet, models_dir, f"hf:o/r:{wanted}").path == models_dir / found


def test_several_files_need_a_choice(internet, models_dir):
    offer(internet, ("a.gguf", GGUF), ("b.gguf", GGUF))
    with pytest.raises(NoModelFile, match=r"add one after a colon; found: a\.gguf, b\.gguf"):
        pulled_from(internet, models_dir)


def test_a_projector_beside_the_model_is_not_meant(internet, models_dir):
    offer(internet, ("mmproj-f16.gguf", GGUF), ("b.gguf", GGUF))
    assert pulled_from(internet, models_dir).path.name == "b.gguf"


@pytest.mark.parametrize("text", ["hf:o/r:Q2_K", "hf:o/r:README.md", "hf:o/r:M.gguf"])
def test_a_file_that_is_not_there_is_refused_with_what_is(internet, models_dir, text):
    offer(internet, ("m.gguf", GGUF), ("README.md", b""))
    with pytest.raises(NoModelFile) as caught:
        pulled_from(internet, models_dir, text)
    assert caught.value.found == ("m.gguf",)


def test_a_repository_without_models_is_refused(internet, models_dir):
    offer(internet, ("model.safetensors", b"x"))
    with pytest.raises(NoModelFile, match="hf:o/r holds no GGUF file"):
        pulled_from(internet, models_dir)


def test_a_part_of_a_split_model_is_refused(internet, models_dir):
    offer(internet, ("m-00001-of-00002.gguf", GGUF))
    with pytest.raises(NoModelFile, match="one part of a split model"):
        pulled_from(internet, models_dir)


def test_other_bytes_than_the_hub_promised_are_refused(internet, models_dir):
    offer(internet, ("m.gguf", GGUF))
    internet.add(f"https://cdn.example/{sha256(GGUF)}?sig=1", GGUF[::-1])
    with pytest.raises(DigestMismatch):
        pulled_from(internet, models_dir)
    assert files_of(models_dir) == []


def test_a_file_without_promised_digest_is_fetched_and_hashed(internet, models_dir):
    offer(internet, siblings=[{"rfilename": "m.gguf", "size": len(GGUF), "lfs": None}])
    serve(internet, "m.gguf", GGUF)
    assert pulled_from(internet, models_dir).digest == sha256(GGUF)


def test_the_store_may_not_be_in_the_local_network(internet, models_dir):
    offer(internet, ("m.gguf", GGUF))
    internet.addresses["cdn.example"] = ["10.0.0.1"]
    with pytest.raises(ForbiddenAddress):
        pulled_from(internet, models_dir)


def test_the_token_is_shown_to_the_hub_only(internet, models_dir):
    offer(internet, ("m.gguf", GGUF))
    pulled_from(internet, models_dir, hub_token="hf_x")
    shown = {url for url, request in internet.requests if "Authorization" in request.headers}
    assert {url.partition("/o/r")[0] for url in shown} == {
        "https://huggingface.co/api/models",
        "https://huggingface.co",
    }


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"[]",
        b"<html>",
        b"{}",
        b'{"sha": "../../x", "siblings": []}',
        b'{"sha": 1}',
        b'{"sha": "' + COMMIT.encode() + b'", "siblings": [{"rfilename": 1}]}',
        b'{"sha": "' + COMMIT.encode() + b'", "siblings": [{"rfilename": "m.gguf",'
        b' "lfs": {"sha256": "xyz", "size": 1}}]}',
    ],
)
def test_a_listing_that_cannot_be_read_is_named(internet, models_dir, body):
    internet.add("https://huggingface.co/api/models/o/r?blobs=true", body)
    with pytest.raises(SourceUnavailable, match="o/r was described"):
        pulled_from(internet, models_dir)


def test_an_unknown_repository_is_named(internet, models_dir):
    with pytest.raises(SourceUnavailable, match=r"models/o/r does not exist \(404\)"):
        pulled_from(internet, models_dir)
    assert files_of(models_dir) == []


def test_a_file_name_of_the_hub_never_leaves_the_folder(internet, models_dir, tmp_path):
    offer(internet, ("a/../../../evil.gguf", GGUF))
    serve(internet, "a/../../../evil.gguf", GGUF)
    with pytest.raises(SourceError):
        pulled_from(internet, models_dir)
    assert not list(tmp_path.rglob("evil*"))
