"""From process start to the first streamed token, with warm caches: `python -m benchmarks.startup`.

Starts `manage.py serve` on what the database wants already, asks for a stream as soon as the port
answers, and takes the time of the first token. Prints every round and the median, asserts nothing.
"""

from __future__ import annotations

import argparse
import os
import re
import statistics
import subprocess
import sys
import time
from pathlib import Path

import httpx

ROOT = Path(__file__).parents[1]
TOKEN = re.compile(r'"content":"[^"]')


def first_token_s(port: int) -> float:
    started = time.perf_counter()
    process = subprocess.Popen(
        [sys.executable, "manage.py", "serve", "--port", str(port)],
        cwd=ROOT,
        env=dict(os.environ),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        while True:
            try:
                if _first_token(port):
                    return time.perf_counter() - started
            except httpx.TransportError:
                pass
            time.sleep(0.01)
    finally:
        process.terminate()
        process.wait()


def _first_token(port: int) -> bool:
    body = {"messages": [{"role": "user", "content": "Hello"}], "stream": True, "max_tokens": 4}
    url = f"http://127.0.0.1:{port}/v1/chat/completions"
    with httpx.stream("POST", url, json=body, timeout=60) as answer:
        return answer.status_code == 200 and any(
            '"content":"' in line for line in answer.iter_lines()
        )


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--port", type=int, default=8765)
    args = parser.parse_args()
    times = []
    for _ in range(args.rounds):
        times.append(first_token_s(args.port))
        print(f"{times[-1]:.2f} s", flush=True)
    print(f"median {statistics.median(times):.2f} s")


if __name__ == "__main__":
    main()
