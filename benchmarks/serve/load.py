"""`make bench-serve`: a server of this project's own under load, and whether it keeps its promises.

    python -m benchmarks.serve.load [--seconds 300] [--streams 200] [--rounds 7] [--model FILE]

First eight streams through HTTP and the same in an engine alone, in turn, and conversations of two
turns; then so many streams for so
long that the server holds all of them (its queue is that deep), with a few clients more than it holds,
one in ten who hangs up midway, and 2,000-token prompts all the time. Prints verdicts and writes
benchmarks/results/<date and time>-serve.json.
"""

from __future__ import annotations

import argparse
import asyncio
import datetime
import json
import platform
import time
from pathlib import Path
from typing import Any

from accel.host import num_cores
from benchmarks.engine import commit, cpu_name
from benchmarks.measured import ROOT
from benchmarks.serve.crowd import under_load
from benchmarks.serve.eight import eight_streams
from benchmarks.serve.engine_alone import Engine
from benchmarks.serve.server import Server, serving
from benchmarks.serve.turns import second_turns
from benchmarks.serve.verdicts import ENDED, IDLE, verdicts

MODELS = ROOT / "var" / "models"
NUM_SLOTS = 8
AT_THE_DOOR = 16  # clients more than the server holds: they meet its refusals
SETTLE_S = 10.0


def measure(model: Path, num_streams: int, seconds: float, rounds: int) -> dict[str, Any]:
    settings = {
        "PANTHEON_BATCH_SLOTS": str(NUM_SLOTS),
        "PANTHEON_QUEUE_DEPTH": str(max(num_streams - NUM_SLOTS, 0)),
        "DJANGO_LOG_LEVEL": "INFO",
    }
    engine = Engine(model)
    try:
        with serving(model, **settings) as server:
            eight = eight_streams(server, engine, rounds)
            print(f"eight streams: {eight}", flush=True)
            turns = second_turns(server)
            print(f"second turns: {turns}", flush=True)
            times_ms = {name: round(1000 * s, 2) for name, s in engine.times_s().items()}
            print(f"engine alone, ms: {times_ms}", flush=True)
            load = asyncio.run(under_load(server, num_streams + AT_THE_DOOR, seconds))
            after = _settled(server)
    finally:
        engine.close()
    return {
        "date": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        "commit": commit(),
        "cpu": cpu_name(),
        "threads": num_cores(),
        "python": platform.python_version(),
        "model": model.name,
        "streams": num_streams,
        "at_the_door": AT_THE_DOOR,
        "eight_streams": eight,
        "second_turns": turns,
        "engine_ms": times_ms,
        "load": load,
        "after": after,
    }


def _settled(server: Server) -> dict[str, float]:
    """The server's own counts once nothing runs, or as they are when that takes too long."""
    deadline = time.monotonic() + SETTLE_S
    while True:
        metrics = server.metrics()
        if not any(metrics[name] for name in IDLE) or time.monotonic() > deadline:
            break
        time.sleep(0.1)
    counts = (f"pantheon_sequences_{each}_total" for each in ("accepted", "refused", *ENDED))
    return {name: metrics[name] for name in (*IDLE, *counts)}


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--seconds", type=float, default=300)
    parser.add_argument("--streams", type=int, default=200)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--model", type=Path, default=None, help="default: the demo model")
    args = parser.parse_args()
    model = args.model or next(iter(sorted(MODELS.glob("SmolLM2*.gguf"))), None)
    if model is None:
        raise SystemExit("The demo model is absent; run `make models` first.")
    run = measure(model.resolve(), args.streams, args.seconds, args.rounds)
    run["verdicts"] = verdicts(run)
    print(json.dumps(run["load"], indent=1))
    for verdict in run["verdicts"]:
        print(f"{'held  ' if verdict['held'] else 'MISSED'} {verdict['must']}: {verdict['seen']}")
    stamp = str(run["date"])[:16].replace(":", "")
    path = ROOT / "benchmarks" / "results" / f"{stamp}-serve.json"
    path.write_text(json.dumps(run, indent=1) + "\n")
    print(f"written to {path.relative_to(ROOT)}")


if __name__ == "__main__":
    main()
