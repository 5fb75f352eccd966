"""The audit trail."""

from __future__ import annotations

import pytest

from registry.errors import InvalidValue
from registry.models import ApiKey, AuditEvent
from registry.services import audit_record, current_request_id
from registry.services.audit import audited
from tests.registry.conftest import ACTOR

pytestmark = pytest.mark.django_db


def test_a_row_names_the_request_it_came_from():
    current_request_id.set("")
    token = current_request_id.set("req-1")
    try:
        audit_record(actor=ACTOR, action="x", target="y")
    finally:
        current_request_id.reset(token)
    audit_record(actor=ACTOR, action="x", target="y")
    assert sorted(AuditEvent.objects.values_list("request_id", flat=True)) == ["", "req-1"]


def test_a_refusal_undoes_the_action_and_is_kept():
    with pytest.raises(InvalidValue), audited("key.make", "k", ACTOR) as detail:
        detail["asked"] = 1
        ApiKey.objects.create(name="k", prefix="p", secret_sha256="0" * 64, scopes="admin")
        raise InvalidValue("name", "is taken")
    assert not ApiKey.objects.exists()
    event = AuditEvent.objects.get()
    assert event.outcome == AuditEvent.Outcome.REFUSED
    assert event.detail == {"asked": 1, "refusal": "name is taken."}


def test_a_crash_is_no_refusal():
    """What the trail does not know about is not recorded as decided."""
    with pytest.raises(ZeroDivisionError), audited("x", "y", ACTOR):
        raise ZeroDivisionError
    assert not AuditEvent.objects.exists()
