"""docs/benchmarks.md, written from the results files, newest first: `python -m benchmarks.report`.

Owns the form of that page. Every figure in it comes from the file named above it.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from benchmarks.measured import ROOT

PAGE = ROOT / "docs" / "benchmarks.md"
RESULTS = ROOT / "benchmarks" / "results"
HEAD = """# Benchmarks

`make bench` keeps this engine and llama.cpp loaded side by side and measures them in turn, case by case, on
the same file and cores; each figure is the median of the rounds, each ratio the median of the rounds'
ratios. Ours are taken through a replica's worker, with scheduling, greedy sampling and streams; llama.cpp's
are `llama_decode` alone. The machine's limits are measured in the same rounds: plain reads, and dot products
of weights of four bits from the first-level cache (weights of eight bits take twice the instructions on
AVX2). Weights read for a token, and multiply-adds with them, are counted against these.

`make bench-serve` loads a whole server: eight streams through HTTP beside the same eight sequences in an
engine alone, conversations of two turns, then 200 streams held for minutes. Machines like these are noisy:
ratios travel, absolute figures do not.
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
        f" {ceiling['multiply_adds_g_s']} G int8 multiply-adds/s{_in_amx(ceiling)}.",
    ]
    for model in report["models"]:
        lines += ["", f"### {model['model']}", "", *_table(model["cases"])]
        rss, load = model["peak_rss_bytes"], model["load_s"]
        lines += [
            "",
            f"Loading takes {load['ours']} s (llama.cpp with a first pass: {load['peer']} s); peak memory"
            f" {rss['ours'] >> 20} MiB{_beyond(model)} (llama.cpp {rss['peer'] >> 20} MiB), KV memory"
            f" included.{_busy(model)}",
        ]
    return "\n".join(lines) + "\n"


def _table(rows: list[dict[str, Any]]) -> list[str]:
    """Cases with figures and ratios, and what that is of the machine's limits, where the run tells."""
    cells = [
        [row["case"], f"{row['ours']} {row['unit']}", str(row["peer"]), str(row["ratio"])]
        for row in rows
    ]
    head = ["case", "ours", "llama.cpp", "ratio"]
    if any(row.get("share") for row in rows):  # older runs have none
        head.append("of the machine's limit")
        for row, line in zip(rows, cells, strict=True):
            line.append(_share(row))
    first, *rest = (f"| {' | '.join(line)} |" for line in (head, *cells))
    return [first, "|" + len(head) * "---|", *rest]


def _share(row: dict[str, Any]) -> str:
    share, ceiling = row["share"], row["ceiling"]
    if share is None:
        return ""
    if share["of"] == "reading":
        return f"{share['share']:.0%} of {ceiling['read_gb_s']} GB/s read"
    most = ceiling["amx_multiply_adds_g_s"] or ceiling["multiply_adds_g_s"]
    return f"{share['share']:.0%} of {most} G multiply-adds/s"


def _beyond(model: dict[str, Any]) -> str:
    """How much of the peak is neither weights nor KV memory, where the run tells."""
    held = model.get("weight_and_kv_bytes")
    return (
        f", {(model['peak_rss_bytes']['ours'] - held) >> 20} beyond weights and KV" if held else ""
    )


def _busy(model: dict[str, Any]) -> str:
    kept = model.get("kept_beside_a_busy_loop")  # older runs have none
    if kept is None:
        return ""
    return (
        f" Beside another process that keeps a core busy {kept['ours']:.0%} of the rate of decoding is left"
        f" (llama.cpp: {kept['peer']:.0%})."
    )


def _in_amx(ceiling: dict[str, Any]) -> str:
    rate = ceiling.get("amx_multiply_adds_g_s")
    return f", {rate} in AMX" if rate else ""


def serving_run_of(report: dict[str, Any], name: str) -> str:
    """One run of a whole server: what it promises, and what was seen."""
    load, eight = report["load"], report["eight_streams"]
    lines = [
        f"## Serving, run of {report['date'][:16]}",
        "",
        f"Commit `{report['commit']}`, {report['cpu']}, {report['threads']} threads, Python"
        f" {report['python']}, {report['model']}: {report['streams']} streams held for"
        f" {load['seconds']:.0f} s, {report['at_the_door']} clients more, the clients on the same cores."
        f" Source: `benchmarks/results/{name}`.",
        "",
        "| promise | seen | kept |",
        "|---|---|---|",
    ]
    lines += [
        f"| {each['must']} | {each['seen']} | {'yes' if each['held'] else '**no**'} |"
        for each in report["verdicts"]
    ]
    lines += [
        "",
        f"Eight streams: {eight['http_tok_s']} tok/s through HTTP, {eight['engine_tok_s']} in the engine"
        f" alone. Under load: {load['tokens_per_s']} tok/s, {load['long_prompts']} prompts of 2,000 tokens,"
        f" gaps between tokens {load['gap_ms']['0.5']} ms (median) and {load['gap_ms']['0.99']} ms (p99),"
        f" first token after {load['ttft_s']['0.5']} s (median, the queue included).",
        *_second_turns(report),
    ]
    return "\n".join(lines) + "\n"


def _second_turns(report: dict[str, Any]) -> list[str]:
    turns = report.get("second_turns")  # older runs have none
    if turns is None:
        return []
    return [
        "",
        f"A conversation's second turn, {turns['conversations']} of them one at a time: after a history of"
        f" {turns['history_tokens']} tokens {turns['computed_tokens']} were computed, and the first token"
        f" came after {turns['second_ms']} ms; in the first turn after {turns['first_ms']} ms (medians).",
    ]


def page(results: Path) -> str:
    """Of all results files of a folder, the newest first, serving before the engine."""
    serving = sorted(results.glob("*-serve.json"), reverse=True)
    engine = sorted(results.glob("*-engine.json"), reverse=True)
    runs = [serving_run_of(json.loads(path.read_text()), path.name) for path in serving]
    runs += [run_of(json.loads(path.read_text()), path.name) for path in engine]
    return "\n".join([HEAD, *runs])


if __name__ == "__main__":
    PAGE.write_text(page(RESULTS))
