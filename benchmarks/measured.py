"""A measured process: started once, asked case by case. Knows neither engine."""

from __future__ import annotations

import json
import subprocess
from dataclasses import asdict
from pathlib import Path

from benchmarks.cases import Case, Started

ROOT = Path(__file__).parents[1]


class Measured:
    """A child that says `Started` when it has loaded, then answers one case a line."""

    def __init__(self, command: list[str]) -> None:
        self._process = subprocess.Popen(
            command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        assert self._process.stdin is not None and self._process.stdout is not None
        self._in, self._out = self._process.stdin, self._process.stdout
        line = self._out.readline()
        if not line:
            raise SystemExit(f"{' '.join(command)} did not start")
        self.started = Started(**json.loads(line))

    def run(self, case: Case) -> float:
        self._in.write(json.dumps(asdict(case)) + "\n")
        self._in.flush()
        return float(self._out.readline())

    def close(self) -> None:
        self._in.close()
        self._process.wait(timeout=60)
        self._out.close()
