"""`manage.py serve` refuses what cannot work before anything is loaded, and says what to do."""

from __future__ import annotations

import fcntl
import socket
from pathlib import Path

import pytest
from django.contrib.auth import get_user_model
from django.core.management import CommandError, call_command

from registry.models import Replica
from tests.fakes.gguf_writer import small_model

pytestmark = pytest.mark.django_db


def test_listening_to_the_network_needs_a_key_first() -> None:
    with pytest.raises(CommandError, match=r"\S*python\S* \S*manage.py apikey create NAME"):
        call_command("serve", host="0.0.0.0")


@pytest.mark.parametrize(
    "option", ["--context=0", "--threads=257", "--threads=two", "--port=70000"]
)
def test_a_number_out_of_range_is_refused_in_plain_words(option: str) -> None:
    with pytest.raises(CommandError, match="must be a whole number between 1 and"):
        call_command("serve", option)


def test_a_taken_port_is_named() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        with pytest.raises(CommandError, match=rf"127.0.0.1:{port}.*--port N .*make serve PORT=N"):
            call_command("serve", port=port)


def test_dies_are_refused_where_there_are_none() -> None:
    with pytest.raises(CommandError, match="no dies"):
        call_command("serve", port=0, model=["alpha"], dies=["0,1"])


def test_more_dies_than_models_are_refused() -> None:
    with pytest.raises(CommandError, match="more --dies"):
        call_command("serve", port=0, dies=["0,1"])


def test_dies_that_are_no_numbers_are_refused() -> None:
    with pytest.raises(CommandError, match="--dies is '0-1'; it must be die numbers"):
        call_command("serve", port=0, model=["alpha"], dies=["0-1"])


def test_more_names_than_models_are_refused() -> None:
    with pytest.raises(CommandError, match="more --name"):
        call_command("serve", port=0, name=["alpha"])


def test_an_unknown_model_is_refused_with_the_way_to_get_one() -> None:
    with pytest.raises(CommandError, match=r"manage.py pull"):
        call_command("serve", port=0, model=["nowhere"])


def test_a_missing_file_is_refused() -> None:
    with pytest.raises(CommandError, match=r"/no/such\.gguf"):
        call_command("serve", port=0, model=["/no/such.gguf"])


def test_a_refused_start_makes_no_admin_whose_password_nobody_saw() -> None:
    with pytest.raises(CommandError):
        call_command("serve", port=0, model=["/no/such.gguf"])
    assert not get_user_model().objects.exists()


def test_beside_a_running_server_nothing_is_wished_of_it(settings, tmp_path: Path) -> None:
    """It would load what was asked of the refused one."""
    settings.DATA_DIR = tmp_path
    model = tmp_path / "alpha.gguf"
    model.write_bytes(small_model())
    with (tmp_path / "engine.lock").open("w") as lock_file:
        fcntl.flock(lock_file, fcntl.LOCK_EX)
        with pytest.raises(CommandError, match="Another Pantheon process serves"):
            call_command("serve", port=0, model=[str(model)])
    assert not Replica.objects.exists()
