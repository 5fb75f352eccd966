"""`make bench`: this engine and llama.cpp in turn on the same files and cores, medians and ratios.

    python -m benchmarks.engine --peer PEER_PYTHON [--rounds 3] [--threads 2] [--model FILE ...]

Both sides stay loaded and are measured alternately, case by case, so that a noisy moment hits both, and
the machine's two ceilings in every round with them. Prints a table and writes
benchmarks/results/<date and time>-engine.json.
"""

from __future__ import annotations

import argparse
import datetime
import json
import platform
import statistics
import subprocess
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Any

from accel.host import num_cores
from benchmarks import random_model
from benchmarks.cases import DECODE_0, FULL, SHORT, Case
from benchmarks.ceiling import Ceiling, measure, median_of
from benchmarks.measured import ROOT, Measured
from benchmarks.shares import share_of, work_of

MODELS = ROOT / "var" / "models"
RANDOM = ("Q4_K", "Q8_0")
BIG_BYTES = 500_000_000  # beyond it llama.cpp takes minutes for one prompt of 4096 tokens
# Its version, and the dot products it was built with.
ABOUT_THE_PEER = """
import llama_cpp
built_with = llama_cpp.llama_print_system_info().decode()
known = ("AVX2", "AVX_VNNI", "AVX512_VNNI", "AMX_INT8", "DOTPROD")
dots = [name for name in known if f"{name} = 1" in built_with]
print("llama-cpp-python", llama_cpp.__version__, f"({', '.join(dots)})")
"""


def bench(
    model: Path, cases: tuple[Case, ...], peer_python: str, threads: int, rounds: int
) -> dict[str, Any]:
    ours = Measured([sys.executable, "-m", "benchmarks.ours", str(model), str(threads)])
    peer = Measured([peer_python, "benchmarks/peer_llama_cpp.py", str(model), str(threads)])
    try:
        rows = [bench_case(case, ours, peer, model, threads, rounds) for case in cases]
        kept = {
            name: round(statistics.median(kept_beside_a_busy_loop(side) for _ in range(rounds)), 2)
            for name, side in (("ours", ours), ("peer", peer))
        }
        print(f"{model.name:34} decode kept beside a busy loop: {kept}", flush=True)
    finally:
        ours.close()
        peer.close()
    return {
        "model": model.name,
        "file_bytes": model.stat().st_size,
        "load_s": {"ours": round(ours.started.load_s, 2), "peer": round(peer.started.load_s, 2)},
        "peak_rss_bytes": {
            "ours": ours.started.peak_rss_bytes,
            "peer": peer.started.peak_rss_bytes,
        },
        "weight_and_kv_bytes": ours.started.weight_and_kv_bytes,
        "cases": rows,
        "kept_beside_a_busy_loop": kept,
    }


def kept_beside_a_busy_loop(side: Measured) -> float:
    """The share of its decoding rate that is left when another process wants a whole core."""
    side.run(DECODE_0)  # who made room for the last busy loop may go on so for a while
    alone = side.run(DECODE_0)
    with subprocess.Popen([sys.executable, "-c", "while True: pass"]) as busy:
        try:
            return side.run(DECODE_0) / alone
        finally:
            busy.kill()


def bench_case(
    case: Case, ours: Measured, peer: Measured, model: Path, threads: int, rounds: int
) -> dict[str, Any]:
    ours.run(case), peer.run(case)  # warm both
    turns = [(ours.run(case), peer.run(case), measure(threads)) for _ in range(rounds)]
    pairs = [(a, b) for a, b, _ in turns]
    mine, theirs = ([pair[i] for pair in pairs] for i in (0, 1))
    ceiling = median_of([ceiling for _, _, ceiling in turns])
    share = share_of(case, statistics.median(mine), work_of(model), ceiling)
    # A ratio above 1 is in our favour, whether more or less of it is better.
    better = [b / a if case.measure == "ttft" else a / b for a, b in pairs]
    row = {
        "case": case.name,
        "unit": "ms" if case.measure == "ttft" else "tok/s",
        "ours": round(statistics.median(mine), 1),
        "peer": round(statistics.median(theirs), 1),
        "ratio": round(statistics.median(better), 2),
        "ours_all": [round(v, 1) for v in mine],
        "peer_all": [round(v, 1) for v in theirs],
        "ceiling": asdict(ceiling),
        "share": share and asdict(share),
    }
    print(
        f"{model.name:34} {case.name:24} ours {row['ours']:>8} {row['unit']:5}"
        f"   llama.cpp {row['peer']:>8}   ratio {row['ratio']:>6}"
        + (f"   {share.share:.0%} of {share.of}" if share else ""),
        flush=True,
    )
    return row


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--peer", required=True, help="a python that can import llama_cpp")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--threads", type=int, default=num_cores())
    parser.add_argument(
        "--model", type=Path, nargs="*", help="default: the demo models and random ones"
    )
    args = parser.parse_args()
    files = args.model or [*sorted(MODELS.glob("*.gguf")), *map(random_file, RANDOM)]
    plan = [(file, SHORT if file.stat().st_size > BIG_BYTES else FULL) for file in files]
    models = [bench(model, cases, args.peer, args.threads, args.rounds) for model, cases in plan]
    report = {
        "date": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        "commit": commit(),
        "cpu": cpu_name(),
        "threads": args.threads,
        "ceiling": asdict(
            median_of([Ceiling(**row["ceiling"]) for model in models for row in model["cases"]])
        ),
        "peer": _output(args.peer, "-c", ABOUT_THE_PEER),
        "python": platform.python_version(),
        "rounds": args.rounds,
        "models": models,
    }
    stamp = str(report["date"])[:16].replace(":", "")
    path = ROOT / "benchmarks" / "results" / f"{stamp}-engine.json"
    path.parent.mkdir(exist_ok=True)
    path.write_text(json.dumps(report, indent=1) + "\n")
    print(f"ceilings {report['ceiling']}\nwritten to {path.relative_to(ROOT)}")


def random_file(quant: str) -> Path:
    path = ROOT / "var" / "bench" / f"random-1b-{quant}.gguf"
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        part = path.with_suffix(".part")
        random_model.write(part, quant).rename(path)
    return path


def _output(*command: str) -> str:
    return subprocess.run(
        command, cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout.strip()


def commit() -> str:
    return _output("git", "rev-parse", "--short", "HEAD")


def cpu_name() -> str:
    lines = Path("/proc/cpuinfo").read_text().splitlines()
    return next(
        (line.split(":")[1].strip() for line in lines if line.startswith("model name")), "unknown"
    )


if __name__ == "__main__":
    main()
