"""API keys. Only a digest of the secret is kept. Knows nothing about HTTP headers."""

from __future__ import annotations

from django.db import models
from django.db.models import Q
from django.utils import timezone

SCOPES = ("admin", "inference")
# Scopes are kept as one sorted, space-separated text (the form of RFC 6749, section 3.3).
SCOPE_TEXTS = ("admin", "inference", "admin inference")


class ApiKey(models.Model):
    name = models.CharField(max_length=64)
    prefix = models.CharField(max_length=16, unique=True, help_text="The public part of the key.")
    secret_sha256 = models.CharField(max_length=64, editable=False)
    scopes = models.CharField(max_length=64)
    created_at = models.DateTimeField("created", auto_now_add=True)
    expires_at = models.DateTimeField("expires", null=True, blank=True)
    revoked_at = models.DateTimeField("revoked", null=True, blank=True)

    class Meta:
        verbose_name = "API key"
        ordering = ("name", "id")
        constraints = (
            models.CheckConstraint(
                name="api_key_scopes_are_known", condition=Q(scopes__in=SCOPE_TEXTS)
            ),
            models.CheckConstraint(name="api_key_has_name", condition=~Q(name="")),
            models.CheckConstraint(
                name="api_key_digest_is_sha256",
                condition=Q(secret_sha256__regex=r"^[0-9a-f]{64}\Z"),
            ),
            models.UniqueConstraint(
                name="api_key_name_is_free",
                fields=["name"],
                condition=Q(revoked_at__isnull=True),
                violation_error_message="A key of this name is in use; revoke it or choose another.",
            ),
        )

    def __str__(self) -> str:
        return f"{self.name} ({self.prefix}…)"

    @property
    def state(self) -> str:
        if self.revoked_at is not None:
            return "revoked"
        if self.expires_at is not None and self.expires_at <= timezone.now():
            return "expired"
        return "usable"

    @property
    def is_usable(self) -> bool:
        return self.state == "usable"
