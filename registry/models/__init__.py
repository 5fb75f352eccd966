"""The tables of the control plane. The rules about writing them live in services."""

from registry.models.api_key import SCOPES, ApiKey
from registry.models.artifact import Artifact
from registry.models.audit import AuditEvent
from registry.models.binding import Binding, BindingShare
from registry.models.hardware import Card, Die
from registry.models.job import Job
from registry.models.replica import Replica, ReplicaTransition

__all__ = [
    "SCOPES",
    "ApiKey",
    "Artifact",
    "AuditEvent",
    "Binding",
    "BindingShare",
    "Card",
    "Die",
    "Job",
    "Replica",
    "ReplicaTransition",
]
