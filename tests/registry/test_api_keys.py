"""API keys: made once, shown once, checked cheaply, ended for good."""

from __future__ import annotations

import hashlib
import re
from datetime import timedelta

import pytest
from django.db import OperationalError
from django.utils import timezone

from registry.errors import ApiKeyNameInUse, ApiKeyNotFound, InvalidValue
from registry.models import ApiKey, AuditEvent
from registry.selectors import any_usable_api_key
from registry.services import api_key_check, api_key_create, api_key_revoke, api_keys, key_policy
from tests.registry.conftest import ACTOR

pytestmark = pytest.mark.django_db


def create(name="laptop", scopes=("inference",), **options):
    return api_key_create(name=name, scopes=scopes, actor=ACTOR, **options)


def test_it_works():
    key, secret = create(scopes=["admin", "inference"])
    info = api_key_check(secret)
    assert (info.key_id, info.name, info.prefix) == (key.pk, "laptop", key.prefix)
    assert info.scopes == {"admin", "inference"}


def test_the_secret_has_256_random_bits_and_is_not_stored():
    key, secret = create()
    assert re.fullmatch(r"pn-[0-9a-f]{8}-[\w-]{43}", secret)
    row = ApiKey.objects.values().get()
    assert secret not in str(row)
    assert secret.removeprefix(key.prefix)[1:] not in str(row)
    assert row["secret_sha256"] == hashlib.sha256(secret.encode()).hexdigest()


def test_the_secret_is_not_in_the_audit_trail():
    _key, secret = create()
    event = AuditEvent.objects.values().get()
    assert secret[12:] not in str(event)
    assert event["actor"] == ACTOR


def test_two_keys_never_share_a_secret():
    assert create("a")[1] != create("b")[1]


@pytest.mark.parametrize("token", ["", "pn-", "pn-00000000-x", "x" * 500, "ключ", "a b", "\x00"])
def test_tokens_that_are_no_key_are_refused(token):
    create()
    assert api_key_check(token) is None


def test_the_right_prefix_is_not_enough():
    key, secret = create()
    assert api_key_check(f"{key.prefix}-{'A' * 43}") is None
    assert api_key_check(secret[:-1]) is None
    assert api_key_check(secret + "A") is None
    assert api_key_check(key.prefix) is None


def test_a_policy_key_costs_no_query(django_assert_num_queries):
    _key, secret = create()
    with django_assert_num_queries(1):
        assert api_key_check(secret) == api_key_check(secret)


def test_a_revoked_key_is_refused_at_once(django_capture_on_commit_callbacks):
    key, secret = create()
    assert api_key_check(secret) is not None
    with django_capture_on_commit_callbacks(execute=True):
        api_key_revoke(wanted=key.prefix, actor=ACTOR)
    assert api_key_check(secret) is None


def test_a_revocation_elsewhere_is_noticed_when_the_memory_ends(monkeypatch):
    key, secret = create()
    now = [100.0]
    monkeypatch.setattr(api_keys._policy, "_clock", lambda: now[0])
    assert api_key_check(secret) is not None
    ApiKey.objects.filter(pk=key.pk).update(revoked_at=timezone.now())
    now[0] += api_keys.POLICY_TTL_S - 0.1
    assert api_key_check(secret) is not None
    now[0] += 0.2
    assert api_key_check(secret) is None


def test_an_expired_key_is_refused_though_remembered():
    key, secret = create(expires_at=timezone.now() + timedelta(hours=1))
    assert api_key_check(secret) is not None
    ApiKey.objects.filter(pk=key.pk).update(expires_at=timezone.now() - timedelta(seconds=1))
    api_keys._policy.clear()
    assert api_key_check(secret) is None


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"name": " "}, "name must be 1 to 64 printable characters"),
        ({"name": "a" * 65}, "name must be 1 to 64"),
        ({"name": "a\x1b[31m"}, "name must be 1 to 64 printable"),
        ({"scopes": []}, "scopes must be one or more of admin, inference"),
        ({"scopes": ["root"]}, "scopes must be one or more of admin, inference"),
        ({"expires_at": timezone.now() - timedelta(days=1)}, "expires_at must lie in the future"),
    ],
)
def test_bad_keys_are_refused(options, said):
    with pytest.raises(InvalidValue, match=said):
        create(**options)
    assert not ApiKey.objects.exists()


def test_a_name_is_used_by_one_live_key():
    create()
    with pytest.raises(ApiKeyNameInUse, match="'laptop' is in use; revoke it first"):
        create()
    api_key_revoke(wanted="laptop", actor=ACTOR)
    assert create()[0].is_usable


def test_revoking_twice_keeps_the_first_date():
    key, _secret = create()
    first = api_key_revoke(wanted="laptop", actor=ACTOR).revoked_at
    assert api_key_revoke(wanted=key.prefix, actor=ACTOR).revoked_at == first


def test_unknown_keys_cannot_be_revoked():
    with pytest.raises(ApiKeyNotFound, match="There is no API key 'nothing'"):
        api_key_revoke(wanted="nothing", actor=ACTOR)


def test_only_usable_keys_count():
    """Whether a server may listen to others depends on it."""
    assert not any_usable_api_key()
    key, _secret = create()
    assert any_usable_api_key()
    ApiKey.objects.filter(pk=key.pk).update(expires_at=timezone.now())
    assert not any_usable_api_key()
    create("other")
    api_key_revoke(wanted="other", actor=ACTOR)
    assert not any_usable_api_key()


def test_the_door_is_open_until_the_first_key_and_never_again(django_capture_on_commit_callbacks):
    """Not when the last one is revoked, nor when it has outlived its date."""
    assert key_policy().is_open
    with django_capture_on_commit_callbacks(execute=True):
        create()
    assert not key_policy().is_open
    with django_capture_on_commit_callbacks(execute=True):
        api_key_revoke(wanted="laptop", actor=ACTOR)
    assert not key_policy().is_open
    assert not any_usable_api_key()


def test_many_keys_are_told_apart():
    made = {create(str(i))[1]: str(i) for i in range(20)}
    api_key_revoke(wanted="7", actor=ACTOR)
    holders = {name: api_key_check(secret) for secret, name in made.items()}
    assert holders.pop("7") is None
    assert all(holder.name == name for name, holder in holders.items())


def test_known_keys_outlive_the_database(monkeypatch):
    """Generation goes on while it is away; nobody who was unknown is let in."""
    _key, secret = create()
    now = [100.0]
    monkeypatch.setattr(api_keys._policy, "_clock", lambda: now[0])
    assert api_key_check(secret) is not None

    def fail():
        raise OperationalError("gone")

    monkeypatch.setattr(api_keys, "_read_policy", fail)
    now[0] += 60
    assert api_key_check(secret) is not None
    assert api_key_check("pn-00000000-x") is None
    api_keys._policy.clear()
    with pytest.raises(OperationalError):
        api_key_check(secret)
