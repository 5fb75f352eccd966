"""Model files known to this server. Knows nothing about how they are read or loaded."""

from __future__ import annotations

from pathlib import Path

from django.db import models
from django.db.models import Q

from registry.names import DIGEST_PATTERN, served_name_of_file


class Artifact(models.Model):
    """One model file, named by the digest of its content."""

    path = models.CharField(max_length=4096)
    digest = models.CharField(max_length=71, unique=True, help_text="sha256: and 64 hex digits.")
    name = models.CharField(max_length=255)
    architecture = models.CharField(max_length=64)
    num_parameters = models.PositiveBigIntegerField(default=0)
    quant_mix = models.CharField("quantization", max_length=255, blank=True, default="")
    context_len = models.PositiveIntegerField("trained context", default=0, help_text="Tokens.")
    weight_bytes = models.PositiveBigIntegerField(default=0)
    kv_bytes_per_token = models.PositiveBigIntegerField(default=0)
    has_chat_template = models.BooleanField("chat template", default=False)
    file_bytes = models.PositiveBigIntegerField(default=0)
    source = models.CharField(
        max_length=1024, blank=True, default="", help_text="Where the file came from."
    )
    created_at = models.DateTimeField("registered", auto_now_add=True)

    class Meta:
        verbose_name = "model file"
        ordering = ("name", "id")
        permissions = (("pull_model", "Can pull model files"),)
        constraints = (
            models.CheckConstraint(
                name="artifact_digest_is_sha256", condition=Q(digest__regex=DIGEST_PATTERN)
            ),
            models.CheckConstraint(name="artifact_has_path", condition=~Q(path="")),
            models.CheckConstraint(name="artifact_has_name", condition=~Q(name="")),
        )
        indexes = (models.Index(name="artifact_name", fields=["name"]),)

    def __str__(self) -> str:
        return self.name

    @property
    def file_name(self) -> str:
        return Path(self.path).name

    @property
    def default_served_name(self) -> str:
        """What it is served as unless the operator says otherwise.

        After the file: the names inside of files are often the notes of whoever trained the model.
        """
        return served_name_of_file(self.file_name, self.digest) or f"model-{self.pk}"

    def file_is_here(self) -> bool:
        """Whether a file of the same length still lies at `path`."""
        try:
            return Path(self.path).stat().st_size == self.file_bytes
        except OSError:
            return False
