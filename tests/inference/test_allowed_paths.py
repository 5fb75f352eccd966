"""Paths a caller of the control API may name: files below a model folder, and nothing else."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from inference import catalogue
from inference.model.errors import GGUFError
from registry.errors import PathRefused
from registry.models import Artifact
from tests.fakes.tiny_gguf import write_tiny_gguf

pytestmark = pytest.mark.django_db

OUTSIDE = (
    "..", "../m.gguf", "../secret_key", "../pantheon.sqlite3", "sub/../../secret_key",
    "../../../../../../../../etc/passwd", "/", "/etc/passwd", "/etc/shadow", "/proc/self/environ",
    "/proc/self/mem", "/proc/self/fd/0", "/dev/zero", "/dev/stdin", "/dev/fd/0", "//etc/passwd",
    "link-out.gguf", "link-dir/passwd", "../models-of-others/m.gguf",
)  # fmt: skip
ABSENT = (
    "", ".", "./", "nothing.gguf", "m.gguf/x", "sub", "dir.gguf", "fifo.gguf", "~/m.gguf",
    "~root/m.gguf", "$HOME/m.gguf", "%2e%2e%2fsecret_key", "..%2fsecret_key", "..\\secret_key", "*",
    "*.gguf", "{m,n}.gguf", "m.gguf;id", "`id`", "$(id)", "-rf", "m.gguf\n", "\n", "a\r\nb", "\x1b[31m",
    "\u202em.gguf", "M.GGUF", "m.gguf ", "file:///etc/passwd", "http://127.0.0.1/m.gguf",
    "https://127.0.0.1/m.gguf", "hf:owner/repo", "pypi:package", "CON", "a:b", "<script>",
)  # fmt: skip
IMPOSSIBLE = (
    "\0", "m.gguf\0", "m\0/../../secret_key", "loop", "loop/m.gguf", "loop-a.gguf", "x" * 256,
    "x" * 5000, "x/" * 3000, "é" * 300, "m.gguf" + "/." * 4000 + "/x", "\ud800.gguf",
)  # fmt: skip


@pytest.fixture
def models(tmp_path: Path, settings) -> Path:
    """A model folder with a model in it, and much that is none."""
    folder = tmp_path / "models"
    (folder / "sub").mkdir(parents=True)
    (folder / "dir.gguf").mkdir()
    (tmp_path / "models-of-others").mkdir()
    write_tiny_gguf(folder / "m.gguf")
    write_tiny_gguf(tmp_path / "models-of-others" / "m.gguf")
    (tmp_path / "secret_key").write_text("secret")
    (tmp_path / "pantheon.sqlite3").write_text("rows")
    os.mkfifo(folder / "fifo.gguf")
    for link, target in (
        ("link-out.gguf", "/etc/passwd"),
        ("link-dir", "/etc"),
        ("loop", "loop"),
        ("loop-a.gguf", "loop-b.gguf"),
        ("loop-b.gguf", "loop-a.gguf"),
        ("link-in.gguf", "m.gguf"),
    ):
        (folder / link).symlink_to(target)
    settings.MODELS_DIR, settings.MODEL_DIRS = folder, [folder]
    return folder


@pytest.mark.parametrize("path", [*OUTSIDE, *ABSENT, *IMPOSSIBLE], ids=lambda p: ascii(p)[:30])
def test_it_is_refused(models: Path, path: str) -> None:
    """With a sentence that is no longer than a sentence, and without a row."""
    with pytest.raises(PathRefused) as refusal:
        catalogue.register_allowed_path(path)
    assert len(str(refusal.value)) < 500
    assert ("outside" in str(refusal.value)) == (path in OUTSIDE)
    assert not Artifact.objects.exists()


@pytest.mark.parametrize(
    "path", ["m.gguf", "m.gguf/", "./m.gguf", "sub/../m.gguf", "link-in.gguf", "{}/m.gguf"]
)
def test_a_model_of_the_folder_is_taken_whatever_the_way_to_it(models: Path, path: str) -> None:
    artifact = catalogue.register_allowed_path(path.format(models))
    assert artifact.path == str(models / "m.gguf")


@pytest.mark.parametrize("content", [b"", b"GGUF", b"junk" * 100, b"GGUF" + b"\xff" * 400])
def test_what_is_no_model_is_refused_by_the_reader(models: Path, content: bytes) -> None:
    (models / "bad.gguf").write_bytes(content)
    with pytest.raises(GGUFError):
        catalogue.register_allowed_path("bad.gguf")
    assert not Artifact.objects.exists()


def test_a_file_that_cannot_be_read_to_its_end_is_refused(
    models: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_args: object) -> str:
        raise OSError(5, "Input/output error")

    monkeypatch.setattr(catalogue, "sha256_file", broken)
    with pytest.raises(PathRefused, match="Input/output error"):
        catalogue.register_allowed_path("m.gguf")
