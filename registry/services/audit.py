"""The audit trail of control actions, refused ones included. Knows nothing about what an action does."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

from django.db import transaction

from registry.errors import RegistryError
from registry.models import AuditEvent
from registry.names import printable

# Set by whoever answers a request; empty outside requests.
current_request_id: ContextVar[str] = ContextVar("current_request_id", default="")


def audit_record(
    *,
    actor: str,
    action: str,
    target: str,
    outcome: AuditEvent.Outcome = AuditEvent.Outcome.OK,
    detail: dict[str, Any] | None = None,
) -> AuditEvent:
    return AuditEvent.objects.create(
        actor=printable(actor[:255]),
        action=action,
        target=printable(target[:512]),
        outcome=outcome,
        detail=detail or {},
        request_id=current_request_id.get()[:64],
    )


@contextmanager
def audited(action: str, target: str, actor: str) -> Iterator[dict[str, Any]]:
    """One transaction around an action and its audit row; yields the row's detail, to be filled in.

    A refusal undoes the action and is recorded by itself, then raised on.
    """
    detail: dict[str, Any] = {}
    try:
        with transaction.atomic():
            yield detail
            audit_record(actor=actor, action=action, target=target, detail=detail)
    except RegistryError as error:
        audit_record(
            actor=actor,
            action=action,
            target=target,
            outcome=AuditEvent.Outcome.REFUSED,
            detail={**detail, "refusal": printable(str(error))},
        )
        raise
