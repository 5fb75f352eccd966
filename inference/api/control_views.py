"""The control routes: load, unload, dies. Parses and answers; `inference.control` acts."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Literal

import msgspec
from msgspec import Meta, Struct

from inference import control
from inference.api.auth import control_caller
from inference.api.body import read_body
from inference.api.control_threads import on_control_thread
from inference.api.endpoint import endpoint
from inference.api.errors import InvalidRequest
from inference.api.reply import json_response

if TYPE_CHECKING:
    from django.http import HttpRequest
    from django.http.response import HttpResponseBase

MAX_DIES = 64


class LoadBody(Struct, frozen=True):
    name: str
    path: str | None = None
    artifact: str | int | None = None
    dies: (
        Annotated[list[Annotated[int, Meta(ge=0, lt=MAX_DIES)]], Meta(max_length=MAX_DIES)] | None
    ) = None
    quantize: bool = False
    another: bool = False
    wait: bool = True

    def __post_init__(self) -> None:
        if (self.path is None) == (self.artifact is None):
            raise InvalidRequest("Send one of 'path' and 'artifact'.", "path")


class UnloadBody(Struct, frozen=True):
    name: str | None = None
    replica_id: str | None = None
    mode: Literal["drain", "force"] = "drain"
    timeout_s: Annotated[float, Meta(ge=0.0, le=86_400.0)] | None = None
    wait: bool = True

    def __post_init__(self) -> None:
        if (self.name is None) == (self.replica_id is None):
            raise InvalidRequest("Send one of 'name' and 'replica_id'.", "name")


class Unloaded(Struct, frozen=True):
    replicas: tuple[control.ReplicaStatus, ...]


_LOAD_DECODER = msgspec.json.Decoder(LoadBody)
_UNLOAD_DECODER = msgspec.json.Decoder(UnloadBody)


@endpoint("POST")
async def load(request: HttpRequest) -> HttpResponseBase:
    caller = await control_caller(request, "registry.load_model")
    body = (await read_body(request, _LOAD_DECODER)).value
    wanted = control.LoadRequest(
        name=body.name,
        path=body.path,
        artifact=None if body.artifact is None else str(body.artifact),
        dies=tuple(body.dies or ()),
        quantize=body.quantize,
        another=body.another,
        wait=body.wait,
    )
    status = await on_control_thread(lambda: control.load(wanted, caller.actor))
    return json_response(status, status=200 if body.wait else 202)


@endpoint("POST")
async def unload(request: HttpRequest) -> HttpResponseBase:
    caller = await control_caller(request, "registry.unload_model")
    body = (await read_body(request, _UNLOAD_DECODER)).value
    wanted = control.UnloadRequest(
        name=body.name or body.replica_id or "",
        mode=body.mode,
        timeout_s=body.timeout_s,
        wait=body.wait,
    )
    replicas = await on_control_thread(lambda: control.unload(wanted, caller.actor))
    return json_response(Unloaded(tuple(replicas)), status=200 if body.wait else 202)


@endpoint("GET")
async def dies(request: HttpRequest) -> HttpResponseBase:
    await control_caller(request, "registry.view_die")
    return json_response(await on_control_thread(control.dies))
