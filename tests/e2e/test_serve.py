"""`manage.py serve` as a user meets it: what it prints, that clients can chat, how it ends."""

from __future__ import annotations

import re
import shlex
import subprocess
import time

import httpx
import openai
import pytest

from tests.e2e.server_process import ServerProcess

QUESTION = [{"role": "user", "content": "hello there"}]


def test_two_models_answer_by_name(server: ServerProcess) -> None:
    client = server.client()
    texts = {}
    for name in ("alpha", "beta"):
        answer = client.chat.completions.create(
            model=name, messages=QUESTION, temperature=0, max_tokens=12
        )
        assert answer.model == name
        assert answer.usage and answer.usage.completion_tokens > 0
        texts[name] = answer.choices[0].message.content
    assert texts["alpha"] != texts["beta"]


def test_a_stream_says_what_the_whole_answer_says(server: ServerProcess) -> None:
    client = server.client()
    ask = {"model": "alpha", "messages": QUESTION, "seed": 7, "max_tokens": 24}
    whole = client.chat.completions.create(**ask)
    chunks = list(client.chat.completions.create(**ask, stream=True))
    text = "".join(c.choices[0].delta.content or "" for c in chunks)
    assert text == whole.choices[0].message.content
    assert chunks[-1].choices[0].finish_reason == whole.choices[0].finish_reason


def test_an_unknown_name_is_refused(server: ServerProcess) -> None:
    with pytest.raises(openai.NotFoundError, match="alpha, beta"):
        server.client().chat.completions.create(model="gamma", messages=QUESTION)


def test_the_printed_curl_line_works_when_pasted(server: ServerProcess) -> None:
    deadline = time.monotonic() + 10
    while not (line := re.search(r"^curl .*$", server.output, re.M)):
        assert time.monotonic() < deadline, server.output
        time.sleep(0.05)
    done = subprocess.run(
        [*shlex.split(line[0]), "--silent", "--max-time", "60"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.startswith('data: {"id":"chatcmpl-')
    assert done.stdout.rstrip().endswith("data: [DONE]")


def test_the_printed_password_opens_the_admin_site(server: ServerProcess) -> None:
    with httpx.Client(base_url=server.url, follow_redirects=True) as browser:
        page = browser.get("/admin/login/")
        token = re.search(r'name="csrfmiddlewaretoken" value="([^"]+)"', page.text)
        assert token
        home = browser.post(
            "/admin/login/?next=/admin/registry/replica/",
            data={
                "username": "admin",
                "password": server.admin_password(),
                "csrfmiddlewaretoken": token[1],
            },
        )
        assert home.status_code == 200
        assert "alpha" in home.text and "beta" in home.text
        assert browser.get("/static/unfold/css/styles.css").status_code == 200


def test_eight_concurrent_streams_get_what_each_gets_alone(server: ServerProcess) -> None:
    import asyncio

    def ask(i: int) -> dict[str, object]:
        return {
            "model": "beta",
            "messages": [{"role": "user", "content": f"tell me about number {i} " * (1 + i)}],
            "seed": i,
            "temperature": 1.0,
            "max_tokens": 20 + i,
        }

    client = server.client()
    alone = [client.chat.completions.create(**ask(i)).choices[0].message.content for i in range(8)]

    async def stream(i: int) -> str:
        async with openai.AsyncOpenAI(base_url=f"{server.url}/v1", api_key="none") as many:
            parts = await many.chat.completions.create(**ask(i), stream=True)
            return "".join([p.choices[0].delta.content or "" async for p in parts])

    async def together() -> list[str]:
        return await asyncio.gather(*(stream(i) for i in range(8)))

    assert asyncio.run(together()) == alone
