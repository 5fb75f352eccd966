"""What pip's files and variables say about the index, the certificates and the proxy."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from inference.sources.network import configured_network
from inference.sources.pip_config import (
    pip_ca_bundle,
    pip_config_files,
    pip_index_url,
    proxy_url,
)


@pytest.fixture
def config(tmp_path):
    def write(*texts):
        files = []
        for number, text in enumerate(texts):
            files.append(tmp_path / f"{number}.conf")
            files[-1].write_text(text)
        return files

    return write


def test_pypi_is_the_index_unless_another_is_configured(config):
    assert pip_index_url({}, []) == "https://pypi.org/simple"
    assert pip_index_url({}, config("[global]\ntimeout = 3\n")) == "https://pypi.org/simple"


@pytest.mark.parametrize(
    ("environ", "texts", "url"),
    [
        ({}, ["[global]\nindex-url = https://a/simple/\n"], "https://a/simple"),
        ({}, ["[global]\nindex-url: https://a/simple\n"], "https://a/simple"),
        ({}, ["[download]\nindex-url = https://d\n[global]\nindex-url = https://a\n"], "https://d"),
        ({}, ["[install]\nindex-url = https://i\n"], "https://pypi.org/simple"),
        (
            {},
            ["[global]\nindex-url = https://a\n", "[global]\nindex-url = https://b\n"],
            "https://b",
        ),
        ({}, ["[global]\nindex-url = https://a\n", "[global]\n"], "https://a"),
        ({"PIP_INDEX_URL": "https://e/"}, ["[global]\nindex-url = https://a\n"], "https://e"),
        ({"PIP_INDEX_URL": ""}, ["[global]\nindex-url = https://a\n"], "https://a"),
        ({}, ["index-url = no section\n", "[global]\nindex-url = https://b\n"], "https://b"),
        ({}, ["[global]\nindex-url = https://p%40ss@a/simple\n"], "https://p%40ss@a/simple"),
    ],
)
def test_the_index_is_the_last_one_named(config, environ, texts, url):
    assert pip_index_url(environ, config(*texts)) == url


def test_missing_and_unreadable_files_are_passed_over(tmp_path):
    broken = tmp_path / "broken.conf"
    broken.write_bytes(b"[global]\nindex-url = \xff\xfe\n")
    assert pip_index_url({}, [tmp_path / "missing", tmp_path, broken]) == "https://pypi.org/simple"


def test_files_are_read_in_pips_order():
    environ = {"HOME": "/home/me", "PIP_CONFIG_FILE": "/my/pip.conf"}
    assert pip_config_files(environ) == [
        Path("/etc/xdg/pip/pip.conf"),
        Path("/etc/pip.conf"),
        Path("/home/me/.pip/pip.conf"),
        Path("/home/me/.config/pip/pip.conf"),
        Path(sys.prefix) / "pip.conf",
        Path("/my/pip.conf"),
    ]


def test_xdg_folders_are_respected():
    files = pip_config_files({"XDG_CONFIG_HOME": "/c", "XDG_CONFIG_DIRS": "/first:/second"})
    assert files[:2] == [Path("/second/pip/pip.conf"), Path("/first/pip/pip.conf")]
    assert Path("/c/pip/pip.conf") in files


@pytest.mark.parametrize("name", ["PIP_CERT", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE"])
def test_certificates_come_from_the_environment(tmp_path, name):
    bundle = tmp_path / "ca.pem"
    bundle.touch()
    assert pip_ca_bundle({name: str(bundle)}, []) == bundle


def test_certificates_come_from_the_files(config, tmp_path):
    bundle = tmp_path / "ca.pem"
    bundle.touch()
    assert pip_ca_bundle({}, config(f"[global]\ncert = {bundle}\n")) == bundle


def test_no_certificates_are_none(tmp_path):
    assert pip_ca_bundle({}, []) is None
    assert pip_ca_bundle({"PIP_CERT": str(tmp_path / "missing")}, []) is None


def test_the_proxy_pip_uses_wins_over_the_general_one(config):
    general = {"HTTPS_PROXY": "http://g:1", "all_proxy": "http://x:1"}
    assert proxy_url({}, []) is None
    assert proxy_url(general, []) == "http://g:1"
    assert proxy_url({"all_proxy": "http://x:1"}, []) == "http://x:1"
    assert proxy_url(general, config("[global]\nproxy = http://f:1\n")) == "http://f:1"
    assert proxy_url(general | {"PIP_PROXY": "http://p:1"}, []) == "http://p:1"


def test_a_network_is_what_is_configured(tmp_path):
    environ = {
        "HOME": str(tmp_path),
        "XDG_CONFIG_DIRS": str(tmp_path),
        "PIP_INDEX_URL": "https://pip.lan/simple/",
        "HF_ENDPOINT": "https://mirror.example/",
        "HF_TOKEN": "hf_x",
        "NO_PROXY": "localhost, .lan,",
    }
    network = configured_network(environ)
    assert network.index_url == "https://pip.lan/simple"
    assert (network.hub_url, network.hub_token) == ("https://mirror.example", "hf_x")
    assert network.no_proxy == ("localhost", ".lan")
