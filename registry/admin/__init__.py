"""The admin site's pages of the control plane. They show rows and call services; no rule lives here."""

from registry.admin import accounts, api_key, artifact, audit, hardware, job, replica

__all__ = ["accounts", "api_key", "artifact", "audit", "hardware", "job", "replica"]
