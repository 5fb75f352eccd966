"""Every write of the control plane, by subject. Knows nothing about HTTP, forms or engines.

Services are plain synchronous functions; those an operator can call take `actor`, and leave an audit row.
"""

from registry.demand import artifact_demand, replica_demand
from registry.key_policy import ApiKeyInfo
from registry.services.api_keys import (
    api_key_check,
    api_key_create,
    api_key_revoke,
    api_key_validate,
    key_policy,
    key_policy_in_memory,
)
from registry.services.artifacts import artifact_find, artifact_register
from registry.services.audit import audit_record, current_request_id
from registry.services.bindings import binding_create, binding_release, binding_resize
from registry.services.hardware import MeasuredDie, die_record, dies_measured, dies_record
from registry.services.jobs import (
    job_cancel_requested,
    job_finish,
    job_get,
    job_open,
    job_progress,
    job_request_cancel,
    job_start,
)
from registry.services.pulls import pull_request, pulls_reset_at_boot
from registry.services.replicas import (
    replica_cancel_unload,
    replica_request,
    replica_request_unload,
    replica_retry,
)
from registry.services.transitions import (
    replica_get,
    replica_progress,
    replica_transition,
    replicas_reset_at_boot,
    replicas_stopped,
)

__all__ = [
    "ApiKeyInfo",
    "MeasuredDie",
    "api_key_check",
    "api_key_create",
    "api_key_revoke",
    "api_key_validate",
    "artifact_demand",
    "artifact_find",
    "artifact_register",
    "audit_record",
    "binding_create",
    "binding_release",
    "binding_resize",
    "current_request_id",
    "die_record",
    "dies_measured",
    "dies_record",
    "job_cancel_requested",
    "job_finish",
    "job_get",
    "job_open",
    "job_progress",
    "job_request_cancel",
    "job_start",
    "key_policy",
    "key_policy_in_memory",
    "pull_request",
    "pulls_reset_at_boot",
    "replica_cancel_unload",
    "replica_demand",
    "replica_get",
    "replica_progress",
    "replica_request",
    "replica_request_unload",
    "replica_retry",
    "replica_transition",
    "replicas_reset_at_boot",
    "replicas_stopped",
]
