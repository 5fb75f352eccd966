"""What pip is configured with: its package index, its certificates, its proxy.

Reads pip's configuration files and the environment it is given; never changes either. An operator
who has told pip where packages come from has told this server too.
Source: pip's user guide, "Configuration" (order of files, names of variables).
"""

from __future__ import annotations

import configparser
import sys
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

DEFAULT_INDEX_URL = "https://pypi.org/simple"
# Later sections win: `pip download` is the command that does what is done here.
_SECTIONS = ("global", "download")


def pip_config_files(environ: Mapping[str, str]) -> list[Path]:
    """The files pip reads on Unix, later ones winning."""
    home = Path(environ.get("HOME", "/nonexistent"))
    user_config = Path(environ.get("XDG_CONFIG_HOME") or home / ".config")
    shared = (environ.get("XDG_CONFIG_DIRS") or "/etc/xdg").split(":")
    files = [Path(folder) / "pip" / "pip.conf" for folder in reversed(shared) if folder]
    files += [
        Path("/etc/pip.conf"),
        home / ".pip" / "pip.conf",
        user_config / "pip" / "pip.conf",
        Path(sys.prefix) / "pip.conf",
    ]
    if chosen := environ.get("PIP_CONFIG_FILE"):
        files.append(Path(chosen))
    return files


def pip_index_url(environ: Mapping[str, str], config_files: Sequence[Path]) -> str:
    """The URL of the package index, without a slash at the end."""
    url = environ.get("PIP_INDEX_URL") or _configured("index-url", config_files)
    return (url or DEFAULT_INDEX_URL).rstrip("/")


def pip_ca_bundle(environ: Mapping[str, str], config_files: Sequence[Path]) -> Path | None:
    """The file of extra certificates pip and requests trust, when one is named and exists."""
    named = (
        environ.get("PIP_CERT")
        or _configured("cert", config_files)
        or environ.get("REQUESTS_CA_BUNDLE")
        or environ.get("CURL_CA_BUNDLE")
    )
    return Path(named) if named and Path(named).is_file() else None


def proxy_url(environ: Mapping[str, str], config_files: Sequence[Path]) -> str | None:
    """The proxy for https, if downloads go through one."""
    return (
        environ.get("PIP_PROXY")
        or _configured("proxy", config_files)
        or environ.get("HTTPS_PROXY")
        or environ.get("https_proxy")
        or environ.get("ALL_PROXY")
        or environ.get("all_proxy")
        or None
    )


def _configured(option: str, config_files: Sequence[Path]) -> str | None:
    found = None
    for file in config_files:
        parser = configparser.RawConfigParser(strict=False)
        try:
            parser.read(file, encoding="utf-8")
        except (configparser.Error, UnicodeDecodeError, OSError):
            # pip itself stops here; a file that only pip needs must not stop a model server.
            continue
        for section in _SECTIONS:
            found = parser.get(section, option, fallback=None) or found
    return found.strip() if found else None
