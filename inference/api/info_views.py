"""Who answers here, whether it is well, and which models it serves. Never waits for a generation."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from django.http import HttpResponseRedirect
from django.urls import reverse
from msgspec import Struct

from inference.api.auth import inference_caller
from inference.api.endpoint import endpoint
from inference.api.reply import json_response
from inference.api.routing import started_runtime
from inference.runtime import ModelNotFound

if TYPE_CHECKING:
    from django.http import HttpRequest
    from django.http.response import HttpResponseBase

    from inference.runtime import ServedModel


class Service(Struct, frozen=True):
    service: Literal["pantheon"] = "pantheon"
    status: Literal["ok"] = "ok"


class Health(Struct, frozen=True):
    status: Literal["ok"] = "ok"


class ModelEntry(Struct, frozen=True):
    """max_model_len and context_length are what vLLM's and OpenRouter's clients look for."""

    id: str
    created: int
    max_model_len: int
    context_length: int
    object: Literal["model"] = "model"
    owned_by: Literal["pantheon"] = "pantheon"


class ModelList(Struct, frozen=True):
    data: list[ModelEntry]
    object: Literal["list"] = "list"


@endpoint("GET")
async def root(request: HttpRequest) -> HttpResponseBase:
    """People are sent to the dashboard; programs get JSON."""
    if "text/html" in request.headers.get("Accept", ""):
        return HttpResponseRedirect(reverse("admin:index"))
    return json_response(Service())


@endpoint("GET")
async def health(_request: HttpRequest) -> HttpResponseBase:
    started_runtime()
    return json_response(Health())


@endpoint("GET")
async def models(request: HttpRequest) -> HttpResponseBase:
    await inference_caller(request)
    return json_response(ModelList([_entry(each) for each in started_runtime().models()]))


@endpoint("GET")
async def model(request: HttpRequest, model_id: str) -> HttpResponseBase:
    await inference_caller(request)
    served = {each.name: each for each in started_runtime().models()}
    if model_id not in served:
        raise ModelNotFound(model_id, tuple(served))
    return json_response(_entry(served[model_id]))


def _entry(served: ServedModel) -> ModelEntry:
    return ModelEntry(
        id=served.name,
        created=served.created_unix_s,
        max_model_len=served.context_len,
        context_length=served.context_len,
    )
