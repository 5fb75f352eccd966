"""docs/benchmarks.md, written from the results files, newest first: `python -m benchmarks.report`.

Owns the form of that page. Every figure in it comes from the file named above it.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from benchmarks.measured import ROOT

PAGE = ROOT / "docs" / "benchmarks.md"
HEAD = """# Benchmarks

`make bench` keeps this engine and llama.cpp loaded side by side and measures them in turn, case by case, on
the same file and cores; each figure is the median of the rounds, each ratio the median of the rounds'
ratios. Ours are taken through a replica's worker, with scheduling, greedy sampling and streams; llama.cpp's
are `llama_decode` alone. `make bench-serve` loads a whole server. Machines like these are noisy: ratios
travel, absolute figures do not.
"""


def run_of(report: dict[str, Any], name: str) -> str:
    """One run's section."""
    ceiling = report["ceiling"]
    lines = [
        f"## Run of {report['date'][:16]}",
        "",
        f"Commit `{report['commit']}`, {report['cpu']},"
        f" {report['threads']} threads, Python {report['python']}, against {report['peer']};"
        f" {report['rounds']} rounds. Source: `benchmarks/results/{name}`.",
        "",
        f"The machine in the same run: {ceiling['read_gb_s']} GB/s read,"
        f" {ceiling['multiply_adds_g_s']} G int8 multiply-adds/s.",
    ]
    for model in report["models"]:
        lines += [
            "",
            f"### {model['model']}",
            "",
            "| case | ours | llama.cpp | ratio |",
            "|---|---|---|---|",
        ]
        lines += [
            f"| {row['case']} | {row['ours']} {row['unit']} | {row['peer']} | {row['ratio']} |"
            for row in model["cases"]
        ]
        rss, load = model["peak_rss_bytes"], model["load_s"]
        lines += [
            "",
            f"Loading takes {load['ours']} s (llama.cpp with a first pass: {load['peer']} s); peak memory"
            f" {rss['ours'] >> 20} MiB (llama.cpp {rss['peer'] >> 20} MiB), KV memory included.",
        ]
    return "\n".join(lines) + "\n"


def page(results: list[Path]) -> str:
    runs = [run_of(json.loads(path.read_text()), path.name) for path in results]
    return "\n".join([HEAD, *runs])


if __name__ == "__main__":
    found = sorted((ROOT / "benchmarks" / "results").glob("*-engine.json"), reverse=True)
    PAGE.write_text(page(found))
