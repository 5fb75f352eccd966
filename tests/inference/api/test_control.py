"""The control routes' bodies and answers. What loading does is tested with `inference.control`."""

from __future__ import annotations

import pytest

from inference import control
from inference.api import auth
from registry import errors
from tests.inference.api.wire import Wire

LOAD, UNLOAD = "/admin/models/load", "/admin/models/unload"
READY = control.ReplicaStatus("r1", "x", "ready", "", (), "", 1.0)


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> list[tuple]:
    """What reaches `inference.control`, from a caller who may do everything."""
    seen: list[tuple] = []

    async def anybody(*_args: object) -> auth.Caller:
        return auth.Caller(tenant="1", actor="key ops", scopes=frozenset({"admin"}))

    monkeypatch.setattr("inference.api.control_views.control_caller", anybody)
    monkeypatch.setattr(control, "load", lambda *args: seen.append(args) or READY)
    monkeypatch.setattr(control, "unload", lambda *args: seen.append(args) or (READY,))
    return seen


def post(wire: Wire, path: str, body: object):
    return wire.post(path, body, X_Api_Key="whatever")


def test_load(wire: Wire, calls: list[tuple]) -> None:
    """S6, D13: the answer comes when the model is ready."""
    answer = post(
        wire, LOAD, {"path": "/models/a.gguf", "name": "x", "dies": [], "quantize": False}
    )
    assert answer.status == 200
    assert answer.json["state"] == "ready"
    assert calls == [(control.LoadRequest(name="x", path="/models/a.gguf"), "key ops")]


def test_load_without_waiting(wire: Wire, calls: list[tuple]) -> None:
    answer = post(wire, LOAD, {"artifact": "sha256:1", "name": "x", "dies": [2, 3], "wait": False})
    assert answer.status == 202
    wanted = control.LoadRequest(name="x", artifact="sha256:1", dies=(2, 3), wait=False)
    assert calls == [(wanted, "key ops")]


def test_a_file_may_be_named_by_its_number(wire: Wire, calls: list[tuple]) -> None:
    for sent in (1, "1"):
        assert post(wire, LOAD, {"artifact": sent, "name": "x"}).status == 200
    assert calls == 2 * [(control.LoadRequest(name="x", artifact="1"), "key ops")]


def test_one_more_replica_is_asked_for_by_name(wire: Wire, calls: list[tuple]) -> None:
    assert post(wire, LOAD, {"path": "a", "name": "x", "another": True}).status == 200
    assert calls == [(control.LoadRequest(name="x", path="a", another=True), "key ops")]


def test_unload(wire: Wire, calls: list[tuple]) -> None:
    """S7, D4."""
    answer = post(wire, UNLOAD, {"name": "x"})
    assert answer.status == 200
    assert [each["replica_id"] for each in answer.json["replicas"]] == ["r1"]
    body = {"replica_id": "r1", "mode": "force", "timeout_s": 1.5, "wait": False}
    assert post(wire, UNLOAD, body).status == 202
    assert calls == [
        (control.UnloadRequest(name="x"), "key ops"),
        (control.UnloadRequest(name="r1", mode="force", timeout_s=1.5, wait=False), "key ops"),
    ]


BAD = [
    (LOAD, {}, "name"),
    (LOAD, {"name": "x"}, "path"),
    (LOAD, {"name": "x", "path": "a", "artifact": "b"}, "path"),
    (LOAD, {"name": 1, "path": "a"}, "name"),
    (LOAD, {"name": "x", "path": ["a"]}, "path"),
    (LOAD, {"name": "x", "path": "a", "dies": "0"}, "dies"),
    (LOAD, {"name": "x", "path": "a", "dies": [-1]}, "dies"),
    (LOAD, {"name": "x", "path": "a", "dies": [64]}, "dies"),
    (LOAD, {"name": "x", "path": "a", "dies": [True]}, "dies"),
    (LOAD, {"name": "x", "path": "a", "dies": [0] * 65}, "dies"),
    (LOAD, {"name": "x", "path": "a", "quantize": 1}, "quantize"),
    (LOAD, {"name": "x", "path": "a", "wait": "no"}, "wait"),
    (LOAD, {"name": "x", "artifact": True}, "artifact"),
    (LOAD, {"name": "x", "artifact": 1.5}, "artifact"),
    (LOAD, {"name": "x", "path": "a", "another": 1}, "another"),
    (UNLOAD, {}, "name"),
    (UNLOAD, {"name": "x", "replica_id": "y"}, "name"),
    (UNLOAD, {"name": "x", "mode": "kill"}, "mode"),
    (UNLOAD, {"name": "x", "timeout_s": -1}, "timeout_s"),
    (UNLOAD, {"name": "x", "timeout_s": 86_401}, "timeout_s"),
    (UNLOAD, {"name": "x", "wait": 1}, "wait"),
]


@pytest.mark.parametrize(("path", "body", "param"), BAD)
def test_a_bad_body_is_named(
    wire: Wire, calls: list[tuple], path: str, body: object, param: str
) -> None:
    answer = post(wire, path, body)
    assert answer.status == 400
    assert answer.error["param"].split("[")[0] == param
    assert calls == []


@pytest.mark.parametrize(
    ("error", "status"),
    [
        (errors.PlacementRefused("x needs 7.9 GiB and die 2 has 6.1."), 507),
        (errors.NameInUse("x"), 409),
        (errors.InvalidTransition("r1", "draining", "loading"), 409),
        (errors.ReplicaNotFound("x"), 404),
        (errors.ArtifactNotFound("x"), 404),
        (errors.PathRefused("/etc/passwd", "it lies outside the model folders"), 400),
        (control.LoadFailed("x", "why"), 500),
    ],
)
def test_refusals(
    wire: Wire,
    calls: list[tuple],
    monkeypatch: pytest.MonkeyPatch,
    error: Exception,
    status: int,
) -> None:
    """S42."""

    def refuse(*_args: object) -> None:
        raise error

    monkeypatch.setattr(control, "load", refuse)
    answer = post(wire, LOAD, {"name": "x", "path": "a"})
    assert answer.status == status
    assert answer.error["message"] == str(error)
    if status in (409, 500, 507):
        assert answer.headers["x-should-retry"] == "false"


def test_loads_that_block_hold_up_no_chat(
    wire: Wire, calls: list[tuple], serving: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    """S10: requests find threads to be parsed on while many loads wait."""
    import threading

    go_on = threading.Event()
    monkeypatch.setattr(control, "load", lambda *_args: go_on.wait(20) and READY)
    body = {"name": "x", "path": "a"}
    waiting = [wire.send("POST", LOAD, body, X_Api_Key="whatever") for _ in range(20)]
    serving.say("yes")
    assert wire.chat().status == 200
    go_on.set()
    for each in waiting:
        assert each.recv(20).startswith(b"HTTP/1.1 200")
        each.close()
