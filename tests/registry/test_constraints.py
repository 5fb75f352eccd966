"""What the database refuses, whoever asks."""

from __future__ import annotations

import pytest
from django.db import IntegrityError, transaction
from django.utils import timezone

from registry.models import ApiKey, Artifact, Binding, Die, Job, Replica
from registry.services import replica_request
from tests.registry.conftest import ACTOR

pytestmark = pytest.mark.django_db


def refused(name, write):
    with pytest.raises(IntegrityError, match=name), transaction.atomic():
        write()


@pytest.fixture
def replica(artifact):
    return replica_request(artifact=artifact, served_name="chat", actor=ACTOR)


@pytest.mark.parametrize(
    ("fields", "constraint"),
    [
        ({"served_name": "a b"}, "replica_served_name_is_plain"),
        ({"served_name": "a\n"}, "replica_served_name_is_plain"),
        ({"state": "sleeping"}, "replica_state_is_known"),
        ({"wanted": "maybe"}, "replica_wanted_is_known"),
        ({"progress": 1.01}, "replica_progress_is_a_share"),
        ({"progress": -0.01}, "replica_progress_is_a_share"),
        ({"unload_mode": "kill"}, "replica_unload_mode_is_known"),
        ({"unload_timeout_s": -1.0}, "replica_unload_timeout_is_positive"),
        ({"state": "failed", "failure_reason": ""}, "replica_failed_has_a_reason"),
    ],
)
def test_replicas(replica, fields, constraint):
    refused(constraint, lambda: Replica.objects.filter(pk=replica.pk).update(**fields))


@pytest.mark.parametrize(
    ("fields", "constraint"),
    [
        ({"digest": "sha256:" + "G" * 64}, "artifact_digest_is_sha256"),
        ({"digest": "sha256:" + "0" * 64 + "\n"}, "artifact_digest_is_sha256"),
        ({"path": ""}, "artifact_has_path"),
        ({"name": ""}, "artifact_has_name"),
    ],
)
def test_artifacts(artifact, fields, constraint):
    refused(constraint, lambda: Artifact.objects.filter(pk=artifact.pk).update(**fields))


def test_a_digest_is_registered_once(artifact, make_artifact):
    other = make_artifact("other")
    refused("digest", lambda: Artifact.objects.filter(pk=other.pk).update(digest=artifact.digest))


@pytest.mark.parametrize(
    ("fields", "constraint"),
    [
        ({"kind": "sing"}, "job_kind_is_known"),
        ({"state": "tired"}, "job_state_is_known|job_ends_with_a_time"),
        ({"progress": 2.0}, "job_progress_is_a_share"),
        ({"state": "done"}, "job_ends_with_a_time"),
        ({"finished_at": timezone.now()}, "job_ends_with_a_time"),
    ],
)
def test_jobs(replica, fields, constraint):
    refused(constraint, lambda: Job.objects.filter(replica=replica).update(**fields))


def test_a_replica_has_one_open_load(replica):
    refused("UNIQUE", lambda: Job.objects.create(kind="load", replica=replica, actor="a"))


def test_a_replica_holds_one_binding(replica):
    Binding.objects.create(replica=replica)
    refused("UNIQUE", lambda: Binding.objects.create(replica=replica))


@pytest.mark.parametrize(
    ("fields", "constraint"),
    [
        ({"budget_bytes": 1 << 60}, "die_budget_within_total"),
        ({"external_bytes": 1 << 60}, "die_external_within_budget"),
    ],
)
def test_dies(two_cards, fields, constraint):
    refused(constraint, lambda: Die.objects.update(**fields))


@pytest.mark.parametrize("scopes", ["", "root", "inference admin", "admin,inference"])
def test_api_key_scopes(db, scopes):
    fields = {"name": "k", "prefix": "p", "secret_sha256": "0" * 64, "scopes": scopes}
    refused("api_key_scopes_are_known", lambda: ApiKey.objects.create(**fields))
