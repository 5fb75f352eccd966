"""A real server in a process of its own, on a data folder of its own. Stops by itself.

Owns the process; tests talk to it over its socket.
"""

from __future__ import annotations

import os
import re
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

import httpx
from openai import OpenAI

ROOT = Path(__file__).parents[2]
START_S = 120  # the first start on a machine compiles kernels


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


@dataclass
class ServerProcess:
    data_dir: Path
    port: int = field(default_factory=free_port)
    extra_env: dict[str, str] = field(default_factory=dict)
    process: subprocess.Popen[str] | None = None
    lines: list[str] = field(default_factory=list)
    collector: threading.Thread | None = None

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def output(self) -> str:
        return "".join(self.lines)

    def env(self) -> dict[str, str]:
        return {
            **os.environ,
            "DJANGO_SETTINGS_MODULE": "pantheon_site.settings",
            "PANTHEON_DATA_DIR": str(self.data_dir),
            "PANTHEON_CONTEXT_LEN": "256",
            "COLUMNS": "200",
            **self.extra_env,
        }

    def manage(self, *args: str) -> str:
        """Run a command on the same data folder and return what it printed."""
        done = subprocess.run(
            [sys.executable, "manage.py", *args],
            cwd=ROOT,
            env=self.env(),
            capture_output=True,
            text=True,
            encoding="utf-8",
            check=False,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    def start(self, *command: str) -> None:
        self.process = subprocess.Popen(
            [sys.executable, *command],
            cwd=ROOT,
            env=self.env(),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            encoding="utf-8",
        )
        self.collector = threading.Thread(target=self._collect, args=(self.process,), daemon=True)
        self.collector.start()

    def _collect(self, process: subprocess.Popen[str]) -> None:
        assert process.stdout is not None
        with process.stdout:
            self.lines.extend(process.stdout)

    def serve(self, *args: str) -> None:
        self.start("manage.py", "serve", "--port", str(self.port), *args)

    def admin_key(self) -> dict[str, str]:
        """Headers with a key that may do everything, made now."""
        scopes = ("--scope", "admin", "--scope", "inference")
        secret = next(
            word
            for word in self.manage("apikey", "create", "tests", *scopes).split()
            if len(word) > 40
        )
        headers = {"Authorization": f"Bearer {secret}"}
        if self.process is not None:
            self._wait_until_known(headers)
        return headers

    def _wait_until_known(self, headers: dict[str, str]) -> None:
        """A server sees a second later what another process changed. What is open tells nothing of a key."""
        self._wait_until_answered(
            "/admin/dies", headers, "knowing the key", lambda answer: answer.status_code != 401
        )

    def wait_until_serving(self, *names: str, headers: dict[str, str] | None = None) -> None:
        """Until /v1/models lists exactly these names."""
        self._wait_until_answered(
            "/v1/models",
            headers,
            f"serving {names}",
            lambda answer: sorted(m["id"] for m in answer.json()["data"]) == sorted(names),
        )

    def _wait_until_answered(
        self,
        path: str,
        headers: dict[str, str] | None,
        doing: str,
        is_right: Callable[[httpx.Response], bool],
    ) -> None:
        deadline = time.monotonic() + START_S
        while time.monotonic() < deadline:
            assert self.process is not None
            assert self.process.poll() is None, f"the server ended:\n{self.output}"
            with suppress(httpx.TransportError):
                if is_right(httpx.get(f"{self.url}{path}", headers=headers, timeout=5)):
                    return
            time.sleep(0.05)
        raise AssertionError(f"not {doing} within {START_S} s:\n{self.output}")

    def stop(self) -> int:
        assert self.process is not None and self.collector is not None
        self.process.terminate()
        status = self.process.wait(timeout=30)
        self.collector.join()
        return status

    def end(self) -> None:
        """Kill what still runs and close its pipe."""
        if self.process is None:
            return
        self.process.kill()
        self.process.wait()
        if self.collector is not None:
            self.collector.join()

    def client(self, **options: object) -> OpenAI:
        return OpenAI(base_url=f"{self.url}/v1", api_key="none", max_retries=0, **options)  # type: ignore[arg-type]

    def admin_password(self) -> str:
        found = re.search(r"log in as admin with (\S+)", self.output)
        assert found, self.output
        return found[1]


@contextmanager
def server_process(data_dir: Path, **extra_env: str) -> Iterator[ServerProcess]:
    """A server with a migrated database; whatever runs at the end is killed."""
    server = ServerProcess(data_dir, extra_env=extra_env)
    server.manage("migrate", "--verbosity", "0")
    try:
        yield server
    finally:
        server.end()
