"""Using a model file that is here already."""

from __future__ import annotations

import os

import pytest

from inference.sources import parse_source
from inference.sources.errors import NoModelFile, NoSuchFile, SourceUnavailable
from inference.sources.pull import PulledFile, pull
from tests.inference.sources.wheels import GGUF, sha256


def test_a_file_stays_where_it_is(tmp_path, models_dir):
    path = tmp_path / "m.gguf"
    path.write_bytes(GGUF)
    steps = []
    pulled = pull(parse_source(str(path)), models_dir, progress=lambda *step: steps.append(step))
    assert pulled == PulledFile(path, sha256(GGUF), len(GGUF))
    assert steps[-1] == (len(GGUF), len(GGUF)) and not models_dir.exists()


def test_a_relative_path_becomes_absolute(tmp_path, models_dir, monkeypatch):
    (tmp_path / "m.gguf").write_bytes(GGUF)
    monkeypatch.chdir(tmp_path)
    assert pull(parse_source("m.gguf"), models_dir).path == tmp_path / "m.gguf"


def test_a_missing_file_is_named(tmp_path, models_dir):
    with pytest.raises(NoSuchFile, match=r"m\.gguf cannot be read: there is no such file\.$"):
        pull(parse_source(f"{tmp_path}/m.gguf"), models_dir)


def test_a_repository_without_its_prefix_is_told_how_it_is_written(models_dir):
    with pytest.raises(
        NoSuchFile, match=r"no such file; .* is written hf:Qwen/Qwen3-0\.6B-GGUF\.$"
    ):
        pull(parse_source("Qwen/Qwen3-0.6B-GGUF"), models_dir)


def test_a_directory_and_a_fifo_are_refused(tmp_path, models_dir):
    os.mkfifo(tmp_path / "fifo")
    for path in (tmp_path, tmp_path / "fifo"):
        with pytest.raises(SourceUnavailable, match="is not a regular file"):
            pull(parse_source(str(path)), models_dir)


@pytest.mark.parametrize("content", [b"", b"GG", b"PK\3\4", b"gguf"])
def test_what_is_no_model_is_refused(tmp_path, models_dir, content):
    path = tmp_path / "m.gguf"
    path.write_bytes(content)
    with pytest.raises(NoModelFile):
        pull(parse_source(str(path)), models_dir)
