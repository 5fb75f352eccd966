"""Pulling and registering: what is shown of it, and when a file need not be fetched again."""

from __future__ import annotations

import pytest

from inference.pulling import pull_and_register, shown_progress
from inference.sources import SourceError
from registry.models import Artifact
from tests.fakes.tiny_gguf import write_tiny_gguf

pytestmark = pytest.mark.django_db


@pytest.fixture
def model_path(tmp_path):
    return write_tiny_gguf(tmp_path / "tiny-llama.gguf")


def pull(path, tmp_path):
    with shown_progress(f"pulling {path}") as progress:
        return pull_and_register(str(path), tmp_path / "models", progress)


def test_a_pull_shows_how_far_it_is(model_path, tmp_path, capsys):
    assert pull(model_path, tmp_path) == Artifact.objects.get()
    assert "pulling" in capsys.readouterr().err


def test_a_refused_pull_shows_no_bar(tmp_path, capsys):
    with pytest.raises(SourceError):
        pull(tmp_path / "nothing.gguf", tmp_path)
    assert capsys.readouterr().err == ""


def test_a_file_that_changed_is_read_again(model_path, tmp_path):
    first = pull(model_path, tmp_path)
    with model_path.open("ab") as file:
        file.write(bytes(32))
    assert pull(model_path, tmp_path).digest != first.digest
