"""`manage.py warm_kernels`: compile kernels into the cache ahead of a start, for models or for all formats.

Owns the words; `accel.cpu.backend` compiles.
"""

from __future__ import annotations

import time
from argparse import ArgumentParser
from pathlib import Path
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError
from rich.console import Console
from rich.progress import Progress

from accel.cpu.backend import CpuBackend
from accel.errors import AccelError
from inference.model.architectures import record
from inference.model.errors import ModelError
from inference.model.gguf import read_gguf
from registry.sizes import counted


class Command(BaseCommand):
    help = (
        "Compile the CPU kernels ahead of a start, into PANTHEON_KERNEL_CACHE_DIR: for all weight formats, or"
        " for those of model files. The cache holds for CPUs with the same instructions."
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument(
            "--model", type=Path, action="append", help="a model file; may be repeated"
        )

    def handle(self, *args: Any, **options: Any) -> None:
        values = settings.PANTHEON
        backend = CpuBackend(
            values["PANTHEON_KERNEL_CACHE_DIR"], values["PANTHEON_CPU_ISA"] or None
        )
        started = time.monotonic()
        try:
            quants = _quants(options["model"]) if options["model"] else None
            with Progress(console=Console(stderr=True)) as bar:
                task = bar.add_task("compiling kernels", total=1.0)
                done = backend.compile_ahead(
                    quants, lambda phase, share: bar.update(task, completed=share)
                )
        except (AccelError, OSError) as error:
            raise CommandError(str(error)) from error
        self.stdout.write(
            f"{counted(done.num_kernels, 'kernel')} ready for {done.choice}:"
            f" {done.num_compiled} compiled in {time.monotonic() - started:.0f} s."
        )


def _quants(paths: list[Path]) -> set[str]:
    """The weight formats that the programs of these model files compute with. Raises: CommandError."""
    found = set()
    for path in paths:
        try:
            with read_gguf(path) as file:
                weights = [w for op in record(file)[1].ops for w in op.weights]
                found |= {part.tensor.quant for weight in weights for part in weight.parts}
        except ModelError as error:
            raise CommandError(f"{path}: {error}") from error
    return found
