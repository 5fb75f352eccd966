"""`make bench`: this engine and llama.cpp in turn on the same files and cores, medians and ratios.

    python -m benchmarks.engine --peer PEER_PYTHON [--rounds 3] [--threads 2] [--model FILE ...]

Both sides stay loaded and are measured alternately, case by case, so that a noisy moment hits both.
Prints a table and writes benchmarks/results/<date>-engine.json.
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

from accel.host import num_cores
from benchmarks.cases import CASES, Case

ROOT = Path(__file__).parents[1]
MODELS = ROOT / "var" / "models"


class Measured:
    """A child process that answers one case a line."""

    def __init__(self, command: list[str]) -> None:
        self._process = subprocess.Popen(
            command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        assert self._process.stdin is not None and self._process.stdout is not None
        self._in, self._out = self._process.stdin, self._process.stdout
        if self._out.readline().strip() != "ready":
            raise SystemExit(f"{' '.join(command)} did not start")

    def run(self, case: Case) -> float:
        self._in.write(json.dumps(asdict(case)) + "\n")
        self._in.flush()
        return float(self._out.readline())

    def close(self) -> None:
        self._in.close()
        self._process.wait(timeout=30)


def bench(model: Path, peer_python: str, threads: int, rounds: int) -> list[dict[str, object]]:
    ours = Measured([sys.executable, "-m", "benchmarks.ours", str(model), str(threads)])
    peer = Measured([peer_python, "benchmarks/peer_llama_cpp.py", str(model), str(threads)])
    rows = []
    try:
        for case in CASES:
            ours.run(case), peer.run(case)  # warm both
            pairs = [(ours.run(case), peer.run(case)) for _ in range(rounds)]
            mine, theirs = ([pair[i] for pair in pairs] for i in (0, 1))
            rows.append(
                {
                    "model": model.name,
                    "case": case.name,
                    "ours_tok_s": round(statistics.median(mine), 1),
                    "peer_tok_s": round(statistics.median(theirs), 1),
                    "ratio": round(statistics.median(a / b for a, b in pairs), 2),
                    "ours_all": [round(v, 1) for v in mine],
                    "peer_all": [round(v, 1) for v in theirs],
                }
            )
            print(
                f"{model.name:34} {case.name:22} ours {rows[-1]['ours_tok_s']:>8} tok/s"
                f"   llama.cpp {rows[-1]['peer_tok_s']:>8} tok/s   ratio {rows[-1]['ratio']:>5}",
                flush=True,
            )
    finally:
        ours.close()
        peer.close()
    return rows


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--peer", required=True, help="a python that can import llama_cpp")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--threads", type=int, default=num_cores())
    parser.add_argument("--model", type=Path, nargs="*", default=sorted(MODELS.glob("*.gguf")))
    args = parser.parse_args()
    rows = [
        row for model in args.model for row in bench(model, args.peer, args.threads, args.rounds)
    ]
    report = {
        "date": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        "commit": _output("git", "rev-parse", "--short", "HEAD"),
        "cpu": _cpu_name(),
        "threads": args.threads,
        "peer": _output(
            args.peer, "-c", "import llama_cpp; print('llama-cpp-python', llama_cpp.__version__)"
        ),
        "python": platform.python_version(),
        "rounds": args.rounds,
        "results": rows,
    }
    results = ROOT / "benchmarks" / "results"
    results.mkdir(exist_ok=True)
    path = results / f"{report['date'][:10]}-engine.json"
    path.write_text(json.dumps(report, indent=1) + "\n")
    print(f"written to {path.relative_to(ROOT)}")


def _output(*command: str) -> str:
    return subprocess.run(
        command, cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout.strip()


def _cpu_name() -> str:
    lines = Path("/proc/cpuinfo").read_text().splitlines()
    return next(
        (line.split(":")[1].strip() for line in lines if line.startswith("model name")), "unknown"
    )


if __name__ == "__main__":
    main()
