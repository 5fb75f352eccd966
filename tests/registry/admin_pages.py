"""Every page of the admin site with a row of every kind behind it. Owns the list; asks nothing."""

from __future__ import annotations

import re
from collections.abc import Iterator

from django.contrib.admin.models import ADDITION, LogEntry
from django.contrib.auth.models import Group, User
from django.contrib.contenttypes.models import ContentType
from django.db.models import Model
from django.urls import URLPattern, URLResolver, get_resolver

from inference.api import urls as api_urls
from registry import services
from registry.models import (
    ApiKey,
    Artifact,
    AuditEvent,
    Binding,
    BindingShare,
    Card,
    Die,
    Job,
    Replica,
    ReplicaTransition,
)
from registry.states import State

# Django's own, and what answers whoever asks: they show no row.
OPEN = {"/admin/login/", "/admin/logout/", "/admin/jsi18n/"}
_ARGUMENT = re.compile(r"<[^>]+>|\(\?P<[^>]+>.*?\)")


def admin_paths() -> list[str]:
    """As patterns, with `<object_id>` and the like in them."""
    control = {f"/{each.pattern}" for each in api_urls.urlpatterns}
    found = {f"/{path}" for path in _walk(get_resolver().url_patterns, "")}
    pages = sorted(path for path in found - control - OPEN if path.startswith("/admin/"))
    return [path for path in pages if "<url>" not in path]  # what is no page is sent to the login


def _walk(patterns: list[URLPattern | URLResolver], prefix: str) -> Iterator[str]:
    for each in patterns:
        path = prefix + str(each.pattern).replace("^", "").replace("$", "").replace("\\", "")
        if isinstance(each, URLResolver):
            yield from _walk(each.url_patterns, path)
        else:
            yield path


def make_rows(artifact: Artifact, die: Die, user: User) -> dict[str, Model]:
    """A row of every model the site knows, by model name."""
    replica = services.replica_request(artifact=artifact, served_name="chat", actor="test")
    for state in (State.PLACED, State.LOADING, State.READY):
        services.replica_transition(replica.public_id, state)
    key, _secret = services.api_key_create(name="laptop", scopes=["inference"], actor="test")
    entry = LogEntry.objects.create(
        user=user,
        content_type=ContentType.objects.get_for_model(Replica),
        object_id=replica.pk,
        object_repr="x",
        action_flag=ADDITION,
    )
    return {
        "artifact": artifact,
        "apikey": key,
        "auditevent": AuditEvent.objects.first(),
        "card": die.card,
        "die": die,
        "group": Group.objects.first(),
        "job": Job.objects.first(),
        "logentry": entry,
        "replica": replica,
        "user": user,
    }  # type: ignore[dict-item]


def address_of(path: str, rows: dict[str, Model]) -> str:
    """The pattern with the keys of a row in it."""
    model = path.split("/")[3] if path.count("/") > 3 else ""
    key = str(rows[model].pk) if model in rows else "1"
    return _ARGUMENT.sub(key, path)


def all_rows() -> dict[str, list[tuple[object, ...]]]:
    """What the control plane and the accounts hold, to be compared."""
    models = (ApiKey, Artifact, AuditEvent, Binding, BindingShare, Card, Die, Group, Job)
    kept = (*models, LogEntry, Replica, ReplicaTransition)
    users = list(User.objects.order_by("pk").values_list("pk", "username", "password", "is_active"))
    return {
        "users": users,
        **{each.__name__: list(each.objects.order_by("pk").values_list()) for each in kept},
    }
