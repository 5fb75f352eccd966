"""Rows that many tests start from, made through the services."""

from __future__ import annotations

import hashlib

import pytest
from django.contrib.auth.models import Group
from django.test import Client

from registry.services import MeasuredDie, api_keys, artifact_register, die_record

GIB = 1 << 30
ACTOR = "user:ada"


@pytest.fixture(autouse=True)
def _fresh_key_cache():
    """The memory of all keys outlives a test's database."""
    api_keys._policy.clear()


@pytest.fixture(autouse=True)
def _fast_passwords(settings):
    settings.PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]


@pytest.fixture
def make_artifact(db):
    def make(name: str = "SmolLM2-135M", **info):
        return artifact_register(
            path=f"/models/{name}.gguf",
            digest="sha256:" + hashlib.sha256(name.encode()).hexdigest(),
            source="test",
            info={
                "name": name,
                "architecture": "llama",
                "num_parameters": 134_515_008,
                "quant_mix": "Q4_1 89 %, Q8_0 11 %",
                "context_len": 2048,
                "weight_bytes": 90 << 20,
                "kv_bytes_per_token": 23_040,
                "has_chat_template": True,
                "file_bytes": 91 << 20,
                **info,
            },
        )

    return make


@pytest.fixture
def artifact(make_artifact):
    return make_artifact()


@pytest.fixture
def two_cards(db):
    """Four dies of 12 GiB on two cards, 11 GiB of budget each, nothing on them."""
    return [die_record(measured(ordinal)) for ordinal in range(4)]


def measured(ordinal, **fields):
    """One die of a K80 of 12 GiB, 11 GiB of them its budget, as the server reports it."""
    idle = {"total_bytes": 12 * GIB, "budget_bytes": 11 * GIB, "external_bytes": 0}
    return MeasuredDie(ordinal, ordinal // 2, "Tesla K80", **{**idle, **fields})


@pytest.fixture
def make_user(db, django_user_model):
    """A staff account in one of the ready groups, or in none."""

    def make(group: str = "", **flags):
        user = django_user_model.objects.create_user(
            username=f"{group or 'nobody'}@example", password="pw", is_staff=True, **flags
        )
        if group:
            user.groups.add(Group.objects.get(name=group))
        return user

    return make


@pytest.fixture
def as_group(make_user):
    """A client logged in as a member of that group."""

    def login(group: str = "") -> Client:
        client = Client()
        client.force_login(make_user(group))
        return client

    return login


@pytest.fixture
def operator(as_group):
    return as_group("operator")
