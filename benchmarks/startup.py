"""From process start to the first streamed token: `python -m benchmarks.startup`.

Starts `manage.py serve` on what the database wants already, asks for a stream as soon as the port
answers, and takes the time of the first token. Prints every round and the median, asserts nothing. With
`--cold` each round compiles its kernels anew, as the first start on a machine does.
"""

from __future__ import annotations

import argparse
import http.client
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).parents[1]
POLL_S = 0.02  # seldom enough to leave the cores to the server
GIVE_UP_S = 180.0
BODY = {"messages": [{"role": "user", "content": "Hello"}], "stream": True, "max_tokens": 4}


def first_token_s(port: int, environment: dict[str, str]) -> float:
    """Raises: SystemExit, when the server ends or has no model to answer with."""
    started = time.perf_counter()
    process = subprocess.Popen(
        [sys.executable, "manage.py", "serve", "--port", str(port)],
        cwd=ROOT,
        env=environment,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        while time.perf_counter() - started < GIVE_UP_S:
            if process.poll() is not None:
                raise SystemExit("The server ended; run `manage.py serve` to see why.")
            if _has_streamed(port):
                return time.perf_counter() - started
            time.sleep(POLL_S)
        raise SystemExit(
            f"No token came within {GIVE_UP_S:.0f} s; is a model loaded (`make serve`)?"
        )
    finally:
        process.terminate()
        process.wait()


def _has_streamed(port: int) -> bool:
    """Whether the server answers with a token by now."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    try:
        headers = {"Content-Type": "application/json"}
        connection.request("POST", "/v1/chat/completions", json.dumps(BODY), headers)
        answer = connection.getresponse()
        return answer.status == 200 and any(b'"content":"' in line for line in answer)
    except OSError:
        return False
    finally:
        connection.close()


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--port", type=int, default=8765)
    parser.add_argument("--cold", action="store_true", help="compile the kernels anew each round")
    args = parser.parse_args()
    times = []
    for _ in range(args.rounds):
        environment = dict(os.environ)
        # Warm caches are also those of Python, which every installation keeps.
        environment.pop("PYTHONDONTWRITEBYTECODE", None)
        with tempfile.TemporaryDirectory() as folder:
            if args.cold:
                environment["PANTHEON_KERNEL_CACHE_DIR"] = folder
            times.append(first_token_s(args.port, environment))
        print(f"{times[-1]:.2f} s", flush=True)
    print(f"median {statistics.median(times):.2f} s")


if __name__ == "__main__":
    main()
