"""Every failure as the API shows it: status, type, code, headers. One table, one envelope.

Owns the refusals of the API itself and the translation of all other layers' errors. Knows nothing
about how a response is sent.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import msgspec
from django.db import utils as database

from inference import control
from inference.engine import errors as engine
from inference.http_server import errors as http
from inference.model.errors import ModelError
from inference.runtime import ModelDraining, ModelNotFound, NoModelLoaded
from inference.sources.errors import InvalidSource
from inference.text.errors import TemplateError, TextError
from registry import errors as registry

if TYPE_CHECKING:
    from collections.abc import Mapping


class ApiError(Exception):
    """A request the API refuses itself."""


class InvalidRequest(ApiError):
    """`param` is the path of the offending field, None for the body as a whole."""

    def __init__(self, message: str, param: str | None = None) -> None:
        self.param = param
        super().__init__(message)


class UnsupportedParameter(ApiError):
    def __init__(self, param: str, why: str) -> None:
        self.param, self.why = param, why
        super().__init__(f"'{param}' is not supported by this server: {why}. Leave it out.")


class MissingApiKey(ApiError):
    def __init__(self) -> None:
        super().__init__("Send an API key in the header 'Authorization: Bearer <key>'.")


class InvalidApiKey(ApiError):
    def __init__(self) -> None:
        super().__init__("The API key is unknown, expired or revoked.")


class ScopeMissing(ApiError):
    def __init__(self, scope: str) -> None:
        self.scope = scope
        super().__init__(f"This needs an API key with the scope '{scope}' or a permitted login.")


class UnknownRoute(ApiError):
    def __init__(self, path: str) -> None:
        self.path = path
        super().__init__(f"There is no endpoint {path[:200]}.")


class RequestNotFound(ApiError):
    def __init__(self, request_id: str) -> None:
        self.request_id = request_id
        super().__init__(
            f"No generation request {request_id[:128]} of this key is among the latest ones."
        )


class MethodNotAllowed(ApiError):
    def __init__(self, method: str, allowed: tuple[str, ...]) -> None:
        self.method, self.allowed = method, allowed
        super().__init__(f"Use {' or '.join(allowed)} for this endpoint, not {method[:32]}.")


class BadHost(ApiError):
    def __init__(self) -> None:
        super().__init__("This server does not answer to that Host; see DJANGO_ALLOWED_HOSTS.")


class NotStarted(ApiError):
    def __init__(self) -> None:
        super().__init__("The engine is starting; retry shortly.")


class GenerationFailed(ApiError):
    """The replica lost the sequence after it was accepted."""

    def __init__(self, why: str) -> None:
        self.why = why
        super().__init__(why or "The model failed while it was generating.")


@dataclass(frozen=True)
class Rule:
    """How one family of errors looks.

    param: the field at fault, or param_from: the error's attribute that names it. retry_helps False:
    of a server's fault that the same request meets again.
    """

    status: int
    type: str
    code: str
    param: str | None = None
    param_from: str = ""
    retry_after_s: int | None = None
    retry_helps: bool = True

    @property
    def headers(self) -> dict[str, str]:
        """When to repeat the request, or that it is no use: what is wrong with it stays wrong."""
        found = {}
        if self.retry_after_s is not None:
            found["Retry-After"] = str(self.retry_after_s)
        is_fault_of_request = self.status < 500 and self.status not in _PASSING
        if is_fault_of_request or not self.retry_helps:
            found["x-should-retry"] = "false"
        return found


_PASSING = frozenset({408, 429})  # of the 4xx: the same request may do better
_INVALID, _SERVER, _BUSY = "invalid_request_error", "server_error", "rate_limit_error"

RULES: Mapping[type[BaseException], Rule] = {
    InvalidRequest: Rule(400, _INVALID, "invalid_value", param_from="param"),
    UnsupportedParameter: Rule(400, _INVALID, "unsupported_parameter", param_from="param"),
    BadHost: Rule(400, _INVALID, "bad_host"),
    http.MalformedRequest: Rule(400, _INVALID, "malformed_request"),
    TemplateError: Rule(400, _INVALID, "template_error", param="messages"),
    engine.EmptyPrompt: Rule(400, _INVALID, "empty_prompt", param="prompt"),
    engine.ContextExceeded: Rule(400, _INVALID, "context_length_exceeded"),
    engine.NoOutputWanted: Rule(400, _INVALID, "invalid_value", param="max_tokens"),
    engine.TokenOutOfVocabulary: Rule(400, _INVALID, "invalid_value"),
    registry.PathRefused: Rule(400, _INVALID, "path_refused", param="path"),
    registry.InvalidValue: Rule(400, _INVALID, "invalid_value", param_from="field"),
    registry.InvalidName: Rule(400, _INVALID, "invalid_name", param="name"),
    InvalidSource: Rule(400, _INVALID, "invalid_source", param="source"),
    control.UnsupportedOption: Rule(400, _INVALID, "unsupported_parameter", param_from="option"),
    ModelError: Rule(400, _INVALID, "invalid_model_file", param="path"),
    MissingApiKey: Rule(401, "authentication_error", "missing_api_key"),
    InvalidApiKey: Rule(401, "authentication_error", "invalid_api_key"),
    ScopeMissing: Rule(403, "permission_error", "insufficient_scope"),
    UnknownRoute: Rule(404, _INVALID, "unknown_url"),
    RequestNotFound: Rule(404, _INVALID, "request_not_found"),
    ModelNotFound: Rule(404, _INVALID, "model_not_found", param="model"),
    registry.ReplicaNotFound: Rule(404, _INVALID, "model_not_found", param="name"),
    registry.ArtifactNotFound: Rule(404, _INVALID, "artifact_not_found", param="artifact"),
    registry.JobNotFound: Rule(404, _INVALID, "job_not_found"),
    MethodNotAllowed: Rule(405, _INVALID, "method_not_allowed"),
    http.RequestTooSlow: Rule(408, _INVALID, "request_timeout"),
    registry.NameInUse: Rule(409, _INVALID, "name_in_use", param="name"),
    registry.UnloadNotCancelable: Rule(409, _INVALID, "invalid_transition"),
    registry.JobNotCancelable: Rule(409, _INVALID, "invalid_transition"),
    registry.InvalidTransition: Rule(409, _INVALID, "invalid_transition"),
    http.BodyTooLarge: Rule(413, _INVALID, "body_too_large"),
    engine.QueueFull: Rule(429, _BUSY, "server_busy", retry_after_s=5),
    engine.QueueTimeout: Rule(429, _BUSY, "server_busy", retry_after_s=2),
    http.HeadersTooLarge: Rule(431, _INVALID, "headers_too_large"),
    engine.EngineError: Rule(500, _SERVER, "generation_failed"),
    GenerationFailed: Rule(500, _SERVER, "generation_failed"),
    TextError: Rule(500, _SERVER, "generation_failed"),
    registry.RegistryError: Rule(500, _SERVER, "control_failed", retry_helps=False),
    NotStarted: Rule(503, _SERVER, "not_started", retry_after_s=2),
    NoModelLoaded: Rule(503, _SERVER, "no_model_loaded", retry_after_s=30, retry_helps=False),
    http.TooManyConnections: Rule(503, _SERVER, "too_many_connections", retry_after_s=5),
    http.TooManyBodies: Rule(503, _SERVER, "server_busy", retry_after_s=5),
    http.ShuttingDown: Rule(503, _SERVER, "shutting_down", retry_after_s=10),
    ModelDraining: Rule(503, _SERVER, "model_unloading", retry_after_s=10),
    engine.NotEnoughMemory: Rule(503, _SERVER, "server_busy", retry_after_s=5),
    engine.MemoryPressure: Rule(503, _SERVER, "server_busy", retry_after_s=5),
    engine.ReplicaClosed: Rule(503, _SERVER, "model_unloading", retry_after_s=10),
    registry.PlacementRefused: Rule(507, _SERVER, "placement_refused", retry_helps=False),
}
UNEXPECTED = Rule(500, _SERVER, "internal_error")
_UNEXPECTED_MESSAGE = "The server failed to answer this request; its log has the reason."
# Locked for longer than its timeout, full, or gone: it may be back in a moment. Logged like the unexpected.
NO_DATABASE = Rule(503, _SERVER, "database_unavailable", retry_after_s=5)
_NO_DATABASE_MESSAGE = "The server's database cannot be used right now; retry shortly."
FORBIDDEN = Rule(403, "permission_error", "forbidden")
_FORBIDDEN_MESSAGE = "The login's CSRF token is missing or wrong; use an API key instead."


class ErrorBody(msgspec.Struct, frozen=True):
    message: str
    type: str
    param: str | None
    code: str | None


class ErrorEnvelope(msgspec.Struct, frozen=True):
    error: ErrorBody


@dataclass(frozen=True)
class Failure:
    """An error, ready to be sent."""

    status: int
    envelope: ErrorEnvelope
    headers: Mapping[str, str] = field(default_factory=dict)

    @property
    def code(self) -> str:
        """The error's name in the table; also what the log calls it."""
        return self.envelope.error.code or ""

    @property
    def body(self) -> bytes:
        return msgspec.json.encode(self.envelope)


def is_expected(error: BaseException) -> bool:
    """Whether the error is one the table knows, so that its message may be shown."""
    return any(cls in RULES for cls in type(error).__mro__)


def translate(error: BaseException) -> Failure:
    """The failure a client sees. An error unknown to the table tells nothing about itself."""
    rule = next((RULES[cls] for cls in type(error).__mro__ if cls in RULES), None)
    if isinstance(error, database.OperationalError):
        return _failure(NO_DATABASE, _NO_DATABASE_MESSAGE)
    if rule is None:
        return _failure(UNEXPECTED, _UNEXPECTED_MESSAGE)
    retry_after_s = getattr(error, "retry_after_s", rule.retry_after_s)
    param = getattr(error, rule.param_from) if rule.param_from else rule.param
    failure = _failure(replace(rule, retry_after_s=retry_after_s, param=param), str(error))
    if isinstance(error, MethodNotAllowed):
        allow = {"Allow": ", ".join(error.allowed)}
        return replace(failure, headers={**failure.headers, **allow})
    return failure


def of_status(status: int) -> Failure:
    """The failure for an answer of Django's own, which came as a page for browsers."""
    if status == 403:
        return _failure(FORBIDDEN, _FORBIDDEN_MESSAGE)
    if status >= 500:
        return _failure(replace(UNEXPECTED, status=status), _UNEXPECTED_MESSAGE)
    return _failure(Rule(status, _INVALID, "refused"), "The request was refused.")


def _failure(rule: Rule, message: str) -> Failure:
    return Failure(rule.status, envelope(rule, message, rule.param), rule.headers)


def envelope(rule: Rule, message: str, param: str | None) -> ErrorEnvelope:
    return ErrorEnvelope(ErrorBody(message, rule.type, param, rule.code))
