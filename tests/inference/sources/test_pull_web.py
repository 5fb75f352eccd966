"""Pulling a file behind an https URL."""

from __future__ import annotations

import pytest

from inference.sources import parse_source
from inference.sources.errors import DigestMismatch, ForbiddenAddress, NoModelFile, StorageFailed
from inference.sources.pull import PulledFile, pull
from tests.inference.sources.wheels import GGUF, sha256


def files_of(models_dir):
    return sorted(
        p.relative_to(models_dir).as_posix() for p in models_dir.rglob("*") if p.is_file()
    )


URL = "https://models.example/dir/My%20Model.gguf"


def pulled_from(internet, models_dir, text=URL):
    return pull(parse_source(text), models_dir, network=internet.network())


def test_it_works(internet, models_dir):
    internet.add(URL, GGUF)
    pulled = pulled_from(internet, models_dir, f"{URL}#sha256={sha256(GGUF)}")
    assert pulled == PulledFile(models_dir / "My_Model.gguf", sha256(GGUF), len(GGUF))


def test_without_a_promise_the_digest_is_computed(internet, models_dir):
    internet.add(URL, GGUF)
    assert pulled_from(internet, models_dir).digest == sha256(GGUF)


def test_another_digest_is_refused(internet, models_dir):
    internet.add(URL, GGUF)
    with pytest.raises(DigestMismatch):
        pulled_from(internet, models_dir, f"{URL}#sha256={'0' * 64}")
    assert files_of(models_dir) == []


def test_a_page_instead_of_a_model_gets_no_name(internet, models_dir):
    internet.add(URL, b"<html>Please log in.</html>")
    with pytest.raises(NoModelFile, match="is no GGUF file"):
        pulled_from(internet, models_dir)
    assert files_of(models_dir) == []


@pytest.mark.parametrize("address", ["127.0.0.1", "169.254.169.254", "::1", "10.0.0.1"])
def test_the_local_network_is_not_reached(internet, models_dir, address):
    internet.addresses["models.example"] = [address]
    with pytest.raises(ForbiddenAddress):
        pulled_from(internet, models_dir)
    assert not internet.requests


def test_a_models_folder_that_cannot_be_made_is_named(internet, tmp_path):
    (tmp_path / "file").touch()
    internet.add(URL, GGUF)
    with pytest.raises(StorageFailed, match="The models folder cannot be used"):
        pull(parse_source(URL), tmp_path / "file", network=internet.network())
