"""Whether a run kept what the server promises under load. Knows figures alone."""

from __future__ import annotations

from typing import Any

MAX_RSS_GROWTH = 1.05
MIN_HTTP_SHARE = 0.9
MAX_SECOND_TURN = 0.15
IDLE = ("pantheon_slots_used", "pantheon_queue_length", "pantheon_kv_pages_used")
ENDED = ("completed", "aborted", "timed_out", "failed")


def verdicts(run: dict[str, Any]) -> list[dict[str, Any]]:
    """Each: what must hold, what was seen, whether it held."""
    load, alone, after = run["load"], run["engine_ms"], run["after"]
    num_lost = load["outcomes"].get("lost", 0)
    busy = {name: after[name] for name in IDLE if after[name]}
    accepted = after["pantheon_sequences_accepted_total"]
    ended = sum(after[f"pantheon_sequences_{how}_total"] for how in ENDED)
    rss = load["rss_mib"]
    growth = rss["highest"] / rss["after warm-up"]
    longest = alone["chunk"] + 2 * alone["step"]
    ratio, turns = run["eight_streams"]["ratio"], run["second_turns"]
    return [
        _verdict(
            "every request ends in a result, an error or a client that left",
            f"{num_lost} lost of {load['requests']}: {load['outcomes']}",
            num_lost == 0,
        ),
        _verdict(
            "the server's own count is exact, and nothing is left in it",
            f"{accepted:.0f} accepted, {ended:.0f} ended, still busy: {busy or 'nothing'}",
            accepted == ended and not busy,
        ),
        _verdict(
            "memory stays within 5 % after warm-up",
            f"{rss['after warm-up']} MiB, at most {rss['highest']} MiB ({growth - 1:+.1%})",
            growth <= MAX_RSS_GROWTH,
        ),
        _verdict(
            "p99 gap between a stream's tokens is at most a chunk and two steps",
            f"{load['gap_ms']['0.99']} ms of {longest:.1f} ms"
            f" ({alone['chunk']:.1f} + 2 x {alone['step']:.1f})",
            load["gap_ms"]["0.99"] <= longest,
        ),
        _verdict(
            "eight streams through HTTP reach 0.9 of the engine's own rate",
            f"{ratio:.3f}",
            ratio >= MIN_HTTP_SHARE,
        ),
        _verdict(
            "a second turn after 3,000 tokens has its first token in 0.15 of the first turn's time",
            f"{turns['ratio']:.3f} ({turns['second_ms']} of {turns['first_ms']} ms)",
            turns["ratio"] <= MAX_SECOND_TURN,
        ),
    ]


def _verdict(must: str, seen: str, held: bool) -> dict[str, Any]:
    return {"must": must, "seen": seen, "held": held}
