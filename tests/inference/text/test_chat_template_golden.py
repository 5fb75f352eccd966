"""Published templates render byte for byte as jinja2 renders them for transformers."""

from __future__ import annotations

import json
from datetime import datetime
from pathlib import Path

import pytest

from inference.text.chat_template import ChatTemplate
from inference.text.errors import TemplateError

OWN = ("gemma3", "llama3.1", "mistral-nemo", "phi3.5", "qwen3")
OTHERS = "deepseek-r1-qwen gemma2 gemma4 glm4.6 gpt-oss granite3.3 hermes3-tools llama3.2 qwen2.5 qwen3.5"


def check(folder: Path, name: str) -> None:
    cases = json.loads((folder / "cases.json").read_text())
    wanted = json.loads((folder / f"{name}.json").read_text())
    now = datetime.fromisoformat(wanted["strftime_now"])
    template = ChatTemplate(
        wanted["template"], wanted["bos_token"], wanted["eos_token"], now=lambda: now
    )
    assert cases.keys() == wanted["rendered"].keys()
    for case, rendered in wanted["rendered"].items():
        if "prompt" in rendered:
            assert template.render(**cases[case]) == rendered["prompt"], case
            continue
        with pytest.raises(TemplateError) as caught:
            template.render(**cases[case])
        if rendered["error_type"] == "TemplateError":
            assert caught.value.reason == rendered["error"]


@pytest.mark.parametrize("name", OWN)
def test_own_copies(name: str, golden: Path) -> None:
    check(golden / "templates", name)


@pytest.mark.parametrize("name", OTHERS.split())
def test_the_others(name: str, shared_golden: Path) -> None:
    check(shared_golden / "templates", name)
