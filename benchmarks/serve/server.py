"""The measured server: a process on a data folder of its own, gone with it. Knows no load."""

from __future__ import annotations

import os
import re
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import httpx

from benchmarks.measured import ROOT

START_S = 180.0  # the first start on a machine compiles kernels
LOG = ROOT / "var" / "bench-serve.log"
MIB = 1 << 20


@dataclass(frozen=True)
class Server:
    port: int
    pid: int

    def rss_bytes(self) -> int:
        lines = Path(f"/proc/{self.pid}/status").read_text().splitlines()
        return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("VmRSS:"))

    def metrics(self) -> dict[str, float]:
        """The sum of each of our series over its labels."""
        sums: dict[str, float] = {}
        page = httpx.get(f"http://127.0.0.1:{self.port}/metrics").text
        for name, value in re.findall(r"^(pantheon_\w+)(?:\{.*\})? (\S+)$", page, re.M):
            sums[name] = sums.get(name, 0.0) + float(value)
        return sums


@contextmanager
def serving(model: Path, **settings: str) -> Iterator[Server]:
    """`settings` are environment variables. Ready when this yields."""
    with tempfile.TemporaryDirectory(prefix="pantheon-bench-") as data_dir, LOG.open("w") as log:
        env = os.environ | settings | {"PANTHEON_DATA_DIR": data_dir}
        subprocess.run(
            [sys.executable, "manage.py", "migrate", "--verbosity", "0"],
            cwd=ROOT,
            env=env,
            check=True,
        )
        port = _free_port()
        process = subprocess.Popen(
            [
                sys.executable,
                "manage.py",
                "serve",
                "--port",
                str(port),
                "--model",
                str(model),
                "--name",
                "demo",
            ],
            cwd=ROOT,
            env=env,
            stdout=log,
            stderr=log,
        )
        try:
            _wait_ready(process, port)
            yield Server(port, process.pid)
        finally:
            process.terminate()
            process.wait(timeout=60)


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def _wait_ready(process: subprocess.Popen[bytes], port: int) -> None:
    deadline = time.monotonic() + START_S
    while time.monotonic() < deadline and process.poll() is None:
        try:
            if httpx.get(f"http://127.0.0.1:{port}/v1/models").json()["data"]:
                return
        except httpx.TransportError:
            pass
        time.sleep(0.1)
    raise SystemExit(f"The server did not start; see {LOG.relative_to(ROOT)}.")
