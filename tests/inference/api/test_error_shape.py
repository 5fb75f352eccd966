"""Every error of every layer as a client sees it: the table pinned, and the envelope's four fields."""

from __future__ import annotations

import inspect
import json
from pathlib import Path

import pytest

from inference import control
from inference.api import errors as api
from inference.engine import errors as engine
from inference.http_server import errors as http
from inference.model.errors import GGUFError, ModelError
from inference.runtime import ModelDraining, ModelNotFound, NoModelLoaded
from inference.text.errors import TemplateError, TextError
from registry import errors as registry

INVALID, SERVER, BUSY = "invalid_request_error", "server_error", "rate_limit_error"
NO_RETRY = {"x-should-retry": "false"}
# What these say holds for the same request later too; every answer with one of them carries NO_RETRY.
ALWAYS_IN_VAIN = frozenset({400, 401, 403, 404, 405, 409, 413, 431, 507})
PASSING = frozenset({408, 429})  # the others of 4xx

# error, status, type, code, param, headers
SHAPES = [
    (api.InvalidRequest("Wrong.", "top_p"), 400, INVALID, "invalid_value", "top_p", {}),
    (api.InvalidRequest("Wrong."), 400, INVALID, "invalid_value", None, {}),
    (api.UnsupportedParameter("n", "why"), 400, INVALID, "unsupported_parameter", "n", {}),
    (api.BadHost(), 400, INVALID, "bad_host", None, {}),
    (http.MalformedRequest("x"), 400, INVALID, "malformed_request", None, {}),
    (TemplateError("No."), 400, INVALID, "template_error", "messages", {}),
    (engine.EmptyPrompt(), 400, INVALID, "empty_prompt", "prompt", {}),
    (engine.NoOutputWanted(0), 400, INVALID, "invalid_value", "max_tokens", {}),
    (engine.ContextExceeded(9, 9, 8), 400, INVALID, "context_length_exceeded", None, {}),
    (engine.TokenOutOfVocabulary("x", 9, 8), 400, INVALID, "invalid_value", None, {}),
    (registry.PathRefused("x", "why"), 400, INVALID, "path_refused", "path", {}),
    (registry.InvalidName("x"), 400, INVALID, "invalid_name", "name", {}),
    (registry.InvalidValue("scopes", "x"), 400, INVALID, "invalid_value", "scopes", {}),
    (control.UnsupportedOption("dies", "x"), 400, INVALID, "unsupported_parameter", "dies", {}),
    (ModelError("x", "y"), 400, INVALID, "invalid_model_file", "path", {}),
    (GGUFError("x", "y"), 400, INVALID, "invalid_model_file", "path", {}),
    (api.MissingApiKey(), 401, "authentication_error", "missing_api_key", None, {}),
    (api.InvalidApiKey(), 401, "authentication_error", "invalid_api_key", None, {}),
    (api.ScopeMissing("admin"), 403, "permission_error", "insufficient_scope", None, {}),
    (api.UnknownRoute("/x"), 404, INVALID, "unknown_url", None, {}),
    (api.RequestNotFound("x"), 404, INVALID, "request_not_found", None, {}),
    (ModelNotFound("x", ("y",)), 404, INVALID, "model_not_found", "model", {}),
    (registry.ReplicaNotFound("x"), 404, INVALID, "model_not_found", "name", {}),
    (registry.ArtifactNotFound("x"), 404, INVALID, "artifact_not_found", "artifact", {}),
    (api.MethodNotAllowed("PUT", ("GET", "HEAD")), 405, INVALID, "method_not_allowed", None,
     {"Allow": "GET, HEAD"}),
    (registry.NameInUse("x"), 409, INVALID, "name_in_use", "name", {}),
    (registry.InvalidTransition("x", "a", "b"), 409, INVALID, "invalid_transition", None, {}),
    (registry.UnloadNotCancelable("x", "a"), 409, INVALID, "invalid_transition", None, {}),
    (http.RequestTooSlow("body", 60.0), 408, INVALID, "request_timeout", None, {}),
    (http.BodyTooLarge(1), 413, INVALID, "body_too_large", None, {}),
    (engine.QueueFull(32), 429, BUSY, "server_busy", None, {"Retry-After": "5"}),
    (engine.QueueTimeout(30.0), 429, BUSY, "server_busy", None, {"Retry-After": "2"}),
    (http.HeadersTooLarge(128, "headers"), 431, INVALID, "headers_too_large", None, {}),
    (engine.SamplingFailed("x"), 500, SERVER, "generation_failed", None, {}),
    (api.GenerationFailed("x"), 500, SERVER, "generation_failed", None, {}),
    (TextError("x", "y"), 500, SERVER, "generation_failed", None, {}),
    (control.LoadFailed("x", "y"), 500, SERVER, "control_failed", None, NO_RETRY),
    (api.NotStarted(), 503, SERVER, "not_started", None, {"Retry-After": "2"}),
    (NoModelLoaded(), 503, SERVER, "no_model_loaded", None, {"Retry-After": "30"} | NO_RETRY),
    (http.TooManyConnections(9), 503, SERVER, "too_many_connections", None, {"Retry-After": "5"}),
    (http.TooManyBodies(9), 503, SERVER, "server_busy", None, {"Retry-After": "5"}),
    (http.ShuttingDown(), 503, SERVER, "shutting_down", None, {"Retry-After": "10"}),
    (ModelDraining("x"), 503, SERVER, "model_unloading", None, {"Retry-After": "10"}),
    (engine.NotEnoughMemory(9), 503, SERVER, "server_busy", None, {"Retry-After": "5"}),
    (engine.MemoryPressure(32), 503, SERVER, "server_busy", None, {"Retry-After": "5"}),
    (engine.ReplicaClosed("x"), 503, SERVER, "model_unloading", None, {"Retry-After": "10"}),
    (registry.PlacementRefused("x"), 507, SERVER, "placement_refused", None, {}),
]  # fmt: skip


@pytest.mark.parametrize("shape", SHAPES, ids=lambda shape: type(shape[0]).__name__)
def test_each_error_has_its_shape(shape: tuple) -> None:
    """S27, S42: status, envelope and headers, and the error's own sentence as the message."""
    error, status, type_, code, param, headers = shape
    failure = api.translate(error)
    assert failure.status == status
    assert dict(failure.headers) == headers | (NO_RETRY if status in ALWAYS_IN_VAIN else {})
    assert json.loads(failure.body) == {
        "error": {"message": str(error), "type": type_, "param": param, "code": code}
    }


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (engine.QueueFull(1), "its queue of 1 request is full"),
        (engine.MemoryPressure(1), "its queue of 1 request is full"),
        (engine.QueueFull(2), "its queue of 2 requests is full"),
        (http.TooManyConnections(1), "already has its 1 connection;"),
    ],
)
def test_one_is_singular(error: Exception, said: str) -> None:
    assert said in str(error)


def test_an_unknown_error_keeps_its_secrets() -> None:
    failure = api.translate(KeyError("secret"))
    assert failure.status == 500
    assert b"secret" not in failure.body
    assert json.loads(failure.body)["error"]["code"] == "internal_error"


def test_what_clients_repeat_by_themselves_says_when_or_that_it_is_no_use() -> None:
    """OpenAI's client repeats 409, 429 and 5xx: 429 and 503 name a time, deterministic refusals say no."""
    for error, status, *_ in SHAPES:
        headers = api.translate(error).headers
        if status in (429, 503):
            assert 0 < int(headers["Retry-After"]) <= 120
        if status in ALWAYS_IN_VAIN:
            assert headers["x-should-retry"] == "false"


def rules() -> set[api.Rule]:
    return {*api.RULES.values(), api.UNEXPECTED, api.NO_DATABASE, api.FORBIDDEN}


def test_every_status_is_said_to_pass_or_not() -> None:
    """A status that is added to the table is put on one side or the other; servers' faults by their code."""
    of_requests = {rule.status for rule in rules() if rule.status < 500}
    assert of_requests <= ALWAYS_IN_VAIN | PASSING
    for rule in rules():
        if rule.status < 500:
            assert ("x-should-retry" in rule.headers) == (rule.status in ALWAYS_IN_VAIN)
    in_vain = {
        rule.code for rule in rules() if rule.status >= 500 and "x-should-retry" in rule.headers
    }
    assert in_vain == {"control_failed", "no_model_loaded", "placement_refused"}


def test_the_page_names_every_status_and_code() -> None:
    page = (Path(__file__).parents[3] / "docs" / "api.md").read_text().split("## Errors")[1]
    lines = [line for line in page.split("## ")[0].splitlines() if line.startswith("| ")]
    missing = [
        (rule.status, rule.code)
        for rule in rules()
        if not any(f"| {rule.status} " in line and f"`{rule.code}`" in line for line in lines)
    ]
    assert not missing


@pytest.mark.parametrize("module", [api, engine, http, registry])
def test_every_error_of_a_layer_is_in_the_table(module: object) -> None:
    """A new error is given a shape of its own, or its family's, deliberately."""
    errors = [c for _, c in inspect.getmembers(module, inspect.isclass) if issubclass(c, Exception)]
    families = {api.ApiError, http.HttpError}
    assert errors
    unknown = [c for c in errors if c not in families and not set(c.__mro__) & set(api.RULES)]
    assert not unknown


@pytest.mark.parametrize(
    ("status", "code"),
    [(400, "refused"), (403, "forbidden"), (404, "refused"), (500, "internal_error")],
)
def test_pages_of_django_become_envelopes(status: int, code: str) -> None:
    failure = api.of_status(status)
    assert failure.status == status
    assert dict(failure.headers) == (NO_RETRY if status < 500 else {})
    assert json.loads(failure.body)["error"].keys() == {"message", "type", "param", "code"}
    assert json.loads(failure.body)["error"]["code"] == code
