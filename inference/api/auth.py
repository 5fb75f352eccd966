"""Who is asking: API keys and page tokens from the headers, logins of the admin site for control routes.

Owns the rule which routes are open to whom, and that asking costs no query as a rule. Knows nothing
about how keys are stored.
"""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING

from django.conf import settings
from django.db import connections

from inference.api.errors import InvalidApiKey, MissingApiKey, ScopeMissing
from registry import services
from registry.page_tokens import page_token_user

if TYPE_CHECKING:
    from django.http import HttpRequest

    from registry.key_policy import KeyPolicy

# One thread: many requests that find the memory old wait for one reading of the keys.
_thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="keys")

INFERENCE_SCOPE, CONTROL_SCOPE = "inference", "admin"


@dataclass(frozen=True)
class Caller:
    """tenant: the key's id, a page's user, or "" for all others, who share a cache. actor: for the audit."""

    tenant: str
    actor: str
    scopes: frozenset[str]


ANONYMOUS = Caller(tenant="", actor="anonymous", scopes=frozenset({INFERENCE_SCOPE}))


def presented_key(request: HttpRequest) -> str | None:
    """The bearer token or the X-Api-Key header; None when neither says anything."""
    scheme, _, token = request.headers.get("Authorization", "").partition(" ")
    bearer = token.strip() if scheme.lower() == "bearer" else ""
    return bearer or request.headers.get("X-Api-Key", "").strip() or None


async def inference_caller(request: HttpRequest) -> Caller:
    """Open while no key exists and none is required: clients that insist on sending one may make it up.

    Raises: InvalidApiKey, MissingApiKey, ScopeMissing.
    """
    return _of_scope(await keyed_caller(request), INFERENCE_SCOPE)


async def keyed_caller(request: HttpRequest) -> Caller:
    """The same with any key, whatever its scopes. Raises: InvalidApiKey, MissingApiKey."""
    required = settings.PANTHEON["PANTHEON_REQUIRE_API_KEY"]
    policy = await _key_policy()
    if policy.is_open and not required:
        return ANONYMOUS
    token = presented_key(request)
    if token is None:
        raise MissingApiKey
    return _caller_of(policy, token)


async def control_caller(request: HttpRequest, permission: str) -> Caller:
    """A key with the admin scope, or a login with the permission (its CSRF token was checked before).

    Raises: InvalidApiKey, MissingApiKey, ScopeMissing.
    """
    token = presented_key(request)
    if token is not None:
        return _of_scope(_caller_of(await _key_policy(), token), CONTROL_SCOPE)
    user = await request.auser()
    if not user.is_authenticated:
        raise MissingApiKey
    if not (user.is_staff and await user.ahas_perm(permission)):
        raise ScopeMissing(CONTROL_SCOPE)
    return Caller(tenant="", actor=user.get_username(), scopes=frozenset({CONTROL_SCOPE}))


async def _key_policy() -> KeyPolicy:
    """From memory; once a second from the database, on a thread."""
    policy = services.key_policy_in_memory()
    if policy is None:
        policy = await asyncio.get_running_loop().run_in_executor(_thread, _read_key_policy)
    return policy


def _read_key_policy() -> KeyPolicy:
    try:
        return services.key_policy()
    finally:
        connections.close_all()


def _caller_of(policy: KeyPolicy, token: str) -> Caller:
    key = policy.holder(token)
    if key is None:
        user_name = page_token_user(token)
        if user_name is None:
            raise InvalidApiKey
        actor = f"user:{user_name}"
        return Caller(tenant=actor, actor=actor, scopes=frozenset({INFERENCE_SCOPE}))
    return Caller(tenant=str(key.key_id), actor=f"key {key.name}", scopes=key.scopes)


def _of_scope(caller: Caller, scope: str) -> Caller:
    """Whoever may load models may use them too."""
    if not caller.scopes & {scope, CONTROL_SCOPE}:
        raise ScopeMissing(scope)
    return caller
