"""Errors of the control plane. Fields first, message derived; the API translates them once."""

from __future__ import annotations


class RegistryError(Exception):
    """A control request was refused."""


class ArtifactNotFound(RegistryError):
    def __init__(self, wanted: str) -> None:
        self.wanted = wanted
        super().__init__(
            f"No model file '{wanted}' is registered by that id, digest, name or file name; pull it first"
            " with `manage.py pull`."
        )


class PathRefused(RegistryError):
    def __init__(self, path: str, reason: str) -> None:
        self.path, self.reason = path, reason
        super().__init__(f"The path '{path[:256]}' cannot be loaded: {reason}.")


class ReplicaNotFound(RegistryError):
    def __init__(self, wanted: str) -> None:
        self.wanted = wanted
        super().__init__(f"No loaded model or replica is called '{wanted}'.")


class NameInUse(RegistryError):
    def __init__(self, served_name: str) -> None:
        self.served_name = served_name
        super().__init__(
            f"The name '{served_name}' already serves another model file; unload it first or choose"
            " another name."
        )


class InvalidName(RegistryError):
    def __init__(self, served_name: str) -> None:
        self.served_name = served_name
        super().__init__(
            f"'{served_name[:128]}' is not a usable model name: 1 to 128 letters, digits and . _ : / - only."
        )


class PlacementRefused(RegistryError):
    """`reason` names the limit and the fix."""

    def __init__(self, reason: str) -> None:
        self.reason = reason
        super().__init__(reason)


class InvalidTransition(RegistryError):
    def __init__(self, replica_id: str, old: str, new: str) -> None:
        self.replica_id, self.old, self.new = replica_id, old, new
        super().__init__(f"Replica {replica_id} is {old} and cannot become {new}.")


class UnloadNotCancelable(RegistryError):
    def __init__(self, replica_id: str, state: str) -> None:
        self.replica_id, self.state = replica_id, state
        super().__init__(
            f"Replica {replica_id} is {state}: there is no unload left to cancel. Load the model again"
            " if it is wanted."
        )


class InvalidValue(RegistryError):
    """`reason` completes the sentence "<field> …"."""

    def __init__(self, field: str, reason: str) -> None:
        self.field, self.reason = field, reason
        super().__init__(f"{field} {reason}.")


class JobNotFound(RegistryError):
    def __init__(self, job_id: str) -> None:
        self.job_id = job_id
        super().__init__(f"There is no job '{job_id}'.")


class JobNotCancelable(RegistryError):
    def __init__(self, job_id: str, state: str) -> None:
        self.job_id, self.state = job_id, state
        super().__init__(f"Job {job_id} is {state} and can no longer be cancelled.")


class ApiKeyNotFound(RegistryError):
    def __init__(self, wanted: str) -> None:
        self.wanted = wanted
        super().__init__(
            f"There is no API key '{wanted[:64]}'; `manage.py apikey list` shows them."
        )


class ApiKeyNameInUse(RegistryError):
    def __init__(self, name: str) -> None:
        self.name = name
        super().__init__(
            f"An API key named '{name}' is in use; revoke it first or choose another name."
        )
