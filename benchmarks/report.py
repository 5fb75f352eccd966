"""docs/benchmarks.md, written from the newest results file: `python -m benchmarks.report`.

Owns the form of that page. Every figure in it comes from the file it names.
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


def page(report: dict[str, Any], name: str) -> str:
    ceiling = report["ceiling"]
    lines = [
        HEAD,
        f"Measured on {report['date'][:10]} at commit `{report['commit']}`: {report['cpu']},"
        f" {report['threads']} threads, Python {report['python']}, against {report['peer']};"
        f" {report['rounds']} rounds. Source: `benchmarks/results/{name}`.",
        "",
        f"The machine in the same run: {ceiling['read_gb_s']} GB/s read,"
        f" {ceiling['multiply_adds_g_s']} G int8 multiply-adds/s.",
    ]
    for model in report["models"]:
        lines += [
            "",
            f"## {model['model']}",
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


def write(results: Path) -> None:
    PAGE.write_text(page(json.loads(results.read_text()), results.name))


def newest() -> Path:
    return max((ROOT / "benchmarks" / "results").glob("*-engine.json"))


if __name__ == "__main__":
    write(newest())
