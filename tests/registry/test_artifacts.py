"""Registering and finding model files."""

from __future__ import annotations

import pytest

from registry.demand import SCRATCH_BYTES, artifact_demand
from registry.errors import ArtifactNotFound, InvalidValue
from registry.models import Artifact
from registry.selectors import artifact_of_source, is_wanted, replicas_wanted
from registry.services import artifact_find, artifact_register, replica_request
from tests.registry.conftest import ACTOR

pytestmark = pytest.mark.django_db

DIGEST = "sha256:" + "0" * 64


def register(**changes):
    return artifact_register(
        **{
            "path": "/m/a.gguf",
            "digest": DIGEST,
            "source": "test",
            "info": {"name": "A"},
            **changes,
        }
    )


def test_a_file_that_is_gone_is_found_at_its_new_path():
    first = register()
    second = register(path="/elsewhere/a.gguf", source="again")
    assert (second.pk, second.path, second.source) == (first.pk, "/elsewhere/a.gguf", "test")
    assert Artifact.objects.count() == 1


@pytest.fixture
def lying_at(tmp_path, settings):
    """Registers one model file as lying below the test's folder, where `models` is the server's own."""
    settings.MODELS_DIR = tmp_path / "models"

    def at(place):
        path = tmp_path / place
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(b"GGUF of 16 bytes")
        return register(path=path, info={"name": "A", "file_bytes": 16})

    return at


def test_a_copy_does_not_take_the_place_of_the_file(lying_at, tmp_path):
    """The copy may be deleted; the model must still load."""
    for first in ("models/a.gguf", "mine/a.gguf"):
        Artifact.objects.all().delete()
        lying_at(first)
        assert lying_at("copy/b.gguf").path == str(tmp_path / first)


def test_a_file_in_the_models_folder_takes_the_place_of_one_elsewhere(lying_at, tmp_path):
    lying_at("mine/a.gguf")
    assert lying_at("models/a.gguf").path == str(tmp_path / "models/a.gguf")


def test_a_file_that_was_overwritten_is_not_kept(lying_at, tmp_path):
    lying_at("models/a.gguf")
    (tmp_path / "models/a.gguf").write_bytes(b"shorter")
    assert lying_at("copy/b.gguf").path == str(tmp_path / "copy/b.gguf")


def test_a_file_without_a_name_is_called_after_its_path():
    assert register(info={}).name == "a"
    assert register(info={"name": ""}).name == "a"


def test_names_from_model_files_are_made_printable():
    """Metadata is written by strangers: no escape sequences, no reversed text, one line."""
    artifact = register(info={"name": "x\x1b[31m\ny\u202e", "architecture": "a\x07"})
    assert (artifact.name, artifact.architecture) == ("x\ufffd[31m y\ufffd", "a\ufffd")


@pytest.mark.parametrize(
    "digest", ["", "0" * 64, "sha256:" + "0" * 63, "sha256:" + "A" * 64, DIGEST + "\n", "../../x"]
)
def test_bad_digests_are_refused(digest):
    with pytest.raises(InvalidValue, match="digest must be sha256: and 64 lower-case hex digits"):
        register(digest=digest)


def test_unknown_facts_are_refused():
    with pytest.raises(InvalidValue, match="info has unknown fields: colour"):
        register(info={"colour": "red"})


def test_it_is_found_by_digest_id_name_and_file_name():
    artifact = register(info={"name": "SmolLM2"})
    for wanted in (DIGEST, str(artifact.pk), "SmolLM2", "a.gguf"):
        assert artifact_find(wanted) == artifact


def test_it_is_found_by_the_name_it_was_served_under():
    artifact = register()
    for served_name in ("chat", "other"):
        replica_request(artifact=artifact, served_name=served_name, actor=ACTOR)
    assert artifact_find("other") == artifact


def test_of_several_with_a_name_the_newest_is_found():
    register()
    newer = register(digest="sha256:" + "1" * 64)
    assert artifact_find("A") == newer


@pytest.mark.parametrize("wanted", ["", "B", "9" * 40, "/m/a.gguf/..", ".gguf", "%", "²"])
def test_unknown_files_are_refused(wanted):
    register()
    with pytest.raises(ArtifactNotFound, match="pull it first"):
        artifact_find(wanted)


def test_the_last_pull_of_a_source_is_found():
    artifact = register(source="hf:a/b")
    assert artifact_of_source("hf:a/b") == artifact
    assert artifact_of_source("hf:a/c") is None


@pytest.mark.parametrize(
    ("file", "served"),
    [
        ("SmolLM2-135M-Instruct.Q4_1.gguf", "smollm2-135m-instruct"),
        ("Qwen3-0.6B-Q8_0.GGUF", "qwen3-0.6b"),
        ("gemma-3-4b-it-UD-Q4_K_XL.gguf", "gemma-3-4b-it"),
        ("llama-iq2_xxs.gguf", "llama"),
        ("m-BF16.gguf", "m"),
        ("fp32.gguf", "fp32"),
        ("my model (2).gguf", "my-model-2"),
        (f"tiny-q4_0-{'0' * 12}.gguf", "tiny"),  # told from another tiny-q4_0.gguf by its digest
        ("a" * 200 + ".gguf", "a" * 128),
    ],
)
def test_the_default_served_name_is_the_files_without_its_format(file, served):
    """Not the name inside the file, which may be anything."""
    artifact = register(path=f"/m/{file}", info={"name": "Smollm2 135M 8k Lc100K Mix1 Ep2"})
    assert artifact.default_served_name == served
    replica_request(artifact=artifact, served_name=served, actor=ACTOR)


def test_a_name_without_usable_letters_still_serves():
    artifact = register(path="/m/!!!.gguf")
    assert artifact.default_served_name == f"model-{artifact.pk}"


def test_what_is_wanted_is_known():
    artifact = register()
    assert not is_wanted(artifact, "chat")
    replica = replica_request(artifact=artifact, served_name="chat", actor=ACTOR)
    assert is_wanted(artifact, "chat")
    assert not is_wanted(artifact, "other")
    assert replicas_wanted() == [replica]


@pytest.mark.parametrize(
    ("asked", "default", "kv_tokens", "context_len", "kv_positions"),
    [
        (0, 0, 0, 2048, 4096),  # the model's own, twice over
        (1000, 0, 0, 1000, 2000),
        (0, 512, 0, 512, 1024),
        (1000, 512, 3000, 1000, 3000),
        (1000, 0, 500, 1000, 1000),  # never less than one whole sequence
    ],
)
def test_demand_follows_the_settings(
    settings, artifact, asked, default, kv_tokens, context_len, kv_positions
):
    settings.PANTHEON = {
        **settings.PANTHEON,
        "PANTHEON_CONTEXT_LEN": default,
        "PANTHEON_KV_TOKENS": kv_tokens,
    }
    demand = artifact_demand(artifact, asked)
    assert demand.context_len == context_len
    assert demand.kv_bytes == kv_positions * 23_040
    assert demand.total_bytes == demand.kv_bytes + (90 << 20) + SCRATCH_BYTES
