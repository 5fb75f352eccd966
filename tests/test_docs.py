"""Everything a user can set, call or run is documented."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from django.core.management import get_commands
from django.urls import URLPattern, URLResolver, get_resolver

from pantheon_site import document

ROOT = Path(__file__).parents[1]


def test_the_settings_page_matches_the_schema() -> None:
    """`make docs` rewrites both files."""
    assert document.SETTINGS_PAGE.read_text() == document.settings_page()
    assert document.ENV_EXAMPLE.read_text() == document.env_example()


def routes(patterns: list[URLPattern | URLResolver], prefix: str = "") -> Iterator[str]:
    for pattern in patterns:
        route = prefix + str(pattern.pattern)
        if isinstance(pattern, URLResolver):
            if pattern.app_name != "admin":
                yield from routes(pattern.url_patterns, route)
        else:
            yield route


def test_every_endpoint_is_documented() -> None:
    page = (ROOT / "docs" / "api.md").read_text()
    named = [r for r in routes(get_resolver().url_patterns) if not r.startswith("static/")]
    plain = {
        "/" + re.sub(r"<(?:\w+:)?(\w+)>", r"{\1}", r).replace("^", "").replace("$", "")
        for r in named
    }
    endpoints = {r for r in plain if not r.startswith("/{")}
    assert endpoints
    written = {word for quoted in re.findall(r"`([^`]+)`", page) for word in quoted.split()}
    missing = sorted(r for r in endpoints if r not in written and f"/v1{r}" not in written)
    assert not missing


@pytest.mark.parametrize(
    "command", sorted(c for c, app in get_commands().items() if app in ("inference", "registry"))
)
def test_every_command_is_documented(command: str) -> None:
    assert f"manage.py {command}" in (ROOT / "docs" / "operations.md").read_text()


def test_every_make_target_is_explained() -> None:
    makefile = (ROOT / "Makefile").read_text()
    phony = re.search(r"^\.PHONY: (.*)$", makefile, re.M)
    assert phony
    silent = [t for t in phony[1].split() if not re.search(rf"^{t}:.*##", makefile, re.M)]
    assert not silent


def test_the_page_of_figures_comes_from_the_results_files() -> None:
    """`python -m benchmarks.report` rewrites it."""
    from benchmarks import report

    assert list(report.RESULTS.glob("*-engine.json"))
    assert report.PAGE.read_text() == report.page(report.RESULTS)
