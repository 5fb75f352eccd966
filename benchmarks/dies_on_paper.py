"""What kernels and models should do on a K80 die, counted: writes the tables of docs/kernels.md.

Owns the counting (registers and shared memory from the compiler's log, instructions from its PTX, bytes
and launches from the planned program) and the bound made of them. Runs nothing on a die.

    python -m benchmarks.dies_on_paper
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from accel.backend import Limits
from accel.cuda import images, nvrtc
from accel.cuda.backend import plan_stages
from inference.model.builder import Builder
from inference.model.config import ModelConfig
from inference.model.fusion import fuse
from inference.model.llama import forward
from inference.model.rope import RopeConfig
from inference.model.weights import Weights
from kernels.cuda.catalogue import CATALOGUE, MATMULS, Kernel, matmul
from kernels.cuda.formats import FORMATS
from kernels.specs.quants import row_bytes
from kernels.specs.tensor import Tensor

PAGE = Path(__file__).parents[1] / "docs" / "kernels.md"

# One GK210 die. Source: NVIDIA's CUDA C guide, column 3.7; bandwidth as ollama37 measured it (plain reads).
MULTIPROCESSORS, WARPS, REGISTERS, SHARED_BYTES, BLOCKS = 13, 64, 128 << 10, 112 << 10, 16
REGISTER_UNIT, SHARED_UNIT = 256, 256  # of a warp, of a thread block
ISSUE_PER_CLOCK = (
    4  # warp instructions: four schedulers, each issuing one; the arithmetic units take six
)
CLOCKS = {"562 MHz": (562e6, 125e9), "875 MHz": (875e6, 150e9)}
# The share of the read bandwidth that the fastest published kernel reaches (ollama37: about 105 of 150 GB/s).
REACHED = 0.7
LAUNCH_S = 10e-6


@dataclass(frozen=True)
class Model:
    """A llama-shaped model; formats by the name of a tensor, as llama.cpp's Q4_K_M mixes them."""

    name: str
    layers: int
    width: int
    ffn: int
    heads: int
    kv_heads: int
    head_dim: int
    vocab: int
    tied: bool
    published: str


MODELS = (
    Model("1B (MiniCPM5-1B's shape)", 24, 1536, 4608, 16, 2, 96, 130_560, True, "93 (lfm2.5-1.2b)"),
    Model("8B (Llama-3-8B)", 32, 4096, 14336, 32, 8, 128, 128_256, False, "18-19"),
    Model(
        "9B (Qwen3.5-9B's size, all layers attending)",
        32,
        4096,
        12288,
        16,
        4,
        256,
        248_320,
        False,
        "15.6-16.6",
    ),
)


def q4_k_m(name: str, layer: int, layers: int) -> str:
    """llama.cpp's mix: Q6_K for the output and half of attn_v and ffn_down, Q4_K for the rest."""
    more = layer < layers // 8 or layer >= 7 * layers // 8 or (layer - layers // 8) % 3 == 2
    if name in ("token_embd", "output") or (name in ("attn_v", "ffn_down") and more):
        return "Q6_K" if name != "token_embd" else "Q4_K"
    return "Q4_K"


class Nothing:
    """Bytes nobody reads: plans need sizes alone."""

    def __init__(self, nbytes: int) -> None:
        self.nbytes = nbytes

    def read(self, begin: int, end: int) -> np.ndarray:
        raise AssertionError("a plan read a weight")


def tensors_of(model: Model) -> dict[str, Tensor]:
    q, kv = model.heads * model.head_dim, model.kv_heads * model.head_dim
    layer_shapes = {
        "attn_q": (q, model.width),
        "attn_k": (kv, model.width),
        "attn_v": (kv, model.width),
        "attn_output": (model.width, q),
        "ffn_gate": (model.ffn, model.width),
        "ffn_up": (model.ffn, model.width),
        "ffn_down": (model.width, model.ffn),
    }
    found: dict[str, Tensor] = {}

    def add(name: str, shape: tuple[int, ...], quant: str) -> None:
        content = np.ones(shape, np.float32).view(np.uint8) if len(shape) == 1 else None
        size = 0 if content is not None else shape[0] * row_bytes(quant, shape[1])
        full = f"{name}.weight"
        found[full] = Tensor(full, quant, shape, Nothing(size) if content is None else content)

    tied = "Q6_K" if model.tied else "Q4_K"
    add("token_embd", (model.vocab, model.width), tied)
    if not model.tied:
        add("output", (model.vocab, model.width), "Q6_K")
    add("output_norm", (model.width,), "F32")
    for layer in range(model.layers):
        for name, shape in layer_shapes.items():
            add(f"blk.{layer}.{name}", shape, q4_k_m(name, layer, model.layers))
        for name in ("attn_norm", "ffn_norm"):
            add(f"blk.{layer}.{name}", (model.width,), "F32")
    return found


@dataclass(frozen=True)
class Traffic:
    """What one step reads and issues on a die: bytes, warp instructions and launches."""

    bytes: float
    instructions: float
    launches: int

    def seconds(self, clock: float, bandwidth: float) -> tuple[float, float, float]:
        """Reading at all of the bandwidth, issuing, and launching."""
        issuing = self.instructions / (MULTIPROCESSORS * ISSUE_PER_CLOCK * clock)
        return self.bytes / bandwidth, issuing, self.launches * LAUNCH_S

    def predicted_s(self, clock: float, bandwidth: float) -> float:
        reading, issuing, launching = self.seconds(clock, bandwidth)
        return max(reading / REACHED, issuing) + launching


def traffic(
    model: Model,
    tokens: int,
    counts: dict[tuple[str, str], float],
    context: int,
    num_dies: int = 1,
) -> tuple[Traffic, ...]:
    """Of each die, for a step of so many decodes."""
    config = ModelConfig(
        "llama", model.layers, model.width, model.ffn, model.heads, model.kv_heads, model.head_dim,
        model.vocab, 8192, 1e-5, RopeConfig(model.head_dim, 10_000.0),
    )  # fmt: skip
    builder = Builder()
    program = fuse(builder.finish(forward(builder, config, Weights(tensors_of(model)))))
    sequences = tokens if tokens <= 8 else 1  # a prompt's rows share what they attend to
    kv_bytes = sequences * context * model.layers * model.kv_heads * model.head_dim * 4
    found = []
    plans = plan_stages(program, Limits(136, 8, 8, 512, 256), num_dies)
    for plan in plans:
        num_bytes, instructions = kv_bytes / num_dies, 0.0
        for rows in plan.lowered.weights:
            is_output = model.tied and plan is plans[-1]
            is_table = rows.area.what == "token_embd" and not is_output
            if not is_table:
                weights = rows.num_rows * rows.k
                num_bytes += rows.area.num_bytes * -(-tokens // MATMULS[-1].tokens)
                shape = next((s for s in MATMULS[1:] if s.tokens >= tokens), MATMULS[-1])
                instructions += weights * tokens * counts[rows.fmt.name, shape.entry] / 32
        found.append(Traffic(num_bytes, instructions, len(plan.lowered.ops)))
    return tuple(found)


def instructions_a_block(kernel: Kernel) -> int:
    """PTX instructions of a lane in one pass of the entry's outermost loop: a block of every row.

    The loop inside it, where there is one (formats of floats), goes round four times.
    """
    options = (*images.FLAGS, *(f"-D{name}={value}" for name, value in kernel.defines))
    ptx = nvrtc.compile_source(kernel.source, "compute_37", options).image.decode()
    body = ptx[ptx.index(f".entry {kernel.entry}(") :]
    lines = [line.strip() for line in body[: body.index("\n}\n")].splitlines()]
    labels = {line[:-1]: at for at, line in enumerate(lines) if re.fullmatch(r"\$L\w+:", line)}
    loops = [
        (labels[found[1]], at)
        for at, line in enumerate(lines)
        if (found := re.search(r"\bbra(?:\.uni)?\s+(\$L\w+);", line))
        and labels.get(found[1], at) < at
    ]
    # The passes meet at barriers; other jumps back lead to a shared way out.
    outer = next(loop for loop in loops if any("bar.sync" in line for line in lines[slice(*loop)]))
    inner = [loop for loop in loops if outer[0] < loop[0] and loop[1] < outer[1]]

    def count(loop: tuple[int, int]) -> int:
        return sum(line.endswith(";") for line in lines[loop[0] : loop[1] + 1])

    return count(outer) + 3 * max(map(count, inner), default=0)


def per_weight_and_token(fmt: str) -> dict[tuple[str, str], float]:
    """Instructions of a lane for each of its weights and tokens."""
    return {
        (fmt, shape.entry): instructions_a_block(matmul(fmt, shape))
        / (shape.rows * 32 * shape.tokens)
        for shape in MATMULS
    }


def warps_resident(registers: int, shared_bytes: int, threads: int) -> int:
    """Warps of one kernel that fit a GK210 multiprocessor."""
    warps = -(-threads // 32)
    a_warp = -(-registers * 32 // REGISTER_UNIT) * REGISTER_UNIT
    blocks = min(BLOCKS, WARPS // warps, REGISTERS // (a_warp * warps))
    if shared_bytes:
        blocks = min(blocks, SHARED_BYTES // (-(-shared_bytes // SHARED_UNIT) * SHARED_UNIT))
    return blocks * warps


def kernel_table() -> list[str]:
    lines = [
        "| kernel | registers | shared bytes | warps of 64 on a multiprocessor |",
        "|---|---|---|---|",
    ]
    logs: dict[tuple[str, tuple[tuple[str, str], ...]], dict[str, nvrtc.Resources]] = {}
    for kernel in CATALOGUE:
        key = (kernel.file, kernel.defines)
        if key not in logs:
            options = (
                *images.FLAGS,
                *(f"-D{name}={value}" for name, value in kernel.defines),
                "-Xptxas=-v",
            )
            logs[key] = nvrtc.resources(nvrtc.compile_source(kernel.source, "sm_37", options).log)
        used = logs[key][kernel.entry]
        resident = warps_resident(used.registers, used.shared_bytes, kernel.threads)
        lines.append(f"| {kernel.name} | {used.registers} | {used.shared_bytes} | {resident} |")
    return lines


def format_table(counts: dict[tuple[str, str], float]) -> list[str]:
    entries = [shape for shape in MATMULS if shape.entry != "matmul_narrow"]
    heads = " | ".join(f"{shape.tokens} at once" for shape in entries)
    lines = [f"| format | bytes a weight | {heads} |", "|---|---|" + "---|" * len(entries)]
    for fmt in FORMATS.values():
        cells = " | ".join(f"{counts[fmt.name, shape.entry]:.2f}" for shape in entries)
        lines.append(f"| {fmt.name} | {fmt.bits_per_weight / 8:.3f} | {cells} |")
    return lines


def model_table(counts: dict[tuple[str, str], float]) -> list[str]:
    lines = [
        "| model, Q4_K_M | batch | launches | GB a step | instructions a step, G | "
        + " | ".join(f"bound at {name}: predicted" for name in CLOCKS)
        + " | published, batch 1 |",
        "|---|---|---|---|---|" + "---|" * (len(CLOCKS) + 1),
    ]
    for model in MODELS:
        for tokens in (1, 8, 128):
            (step,) = traffic(model, tokens, counts, context=512)
            cells = []
            for rates in CLOCKS.values():
                bounds = dict(
                    zip(("bytes", "instructions", "launches"), step.seconds(*rates), strict=True)
                )
                why = max(bounds, key=lambda name: bounds[name])
                predicted = tokens / step.predicted_s(*rates)
                cells.append(f"{tokens / bounds[why]:.0f} ({why}): {predicted:.0f}")
            published = model.published if tokens == 1 else ""
            lines.append(
                f"| {model.name} | {tokens} | {step.launches} | {step.bytes / 1e9:.2f} |"
                f" {step.instructions / 1e9:.2f} | {' | '.join(cells)} | {published} |"
            )
    return lines


def split_table(counts: dict[tuple[str, str], float]) -> list[str]:
    """A split runs one step after the other, or two in flight with half of the sequences each."""
    lines = [
        "| model, Q4_K_M | batch | "
        + " | ".join(
            f"one die at {name} | two dies, one step | two dies, two steps" for name in CLOCKS
        )
        + " |",
        "|---|---|" + "---|" * (3 * len(CLOCKS)),
    ]
    for model in MODELS:
        for tokens in (2, 8):
            (whole,) = traffic(model, tokens, counts, context=512)
            after_another = traffic(model, tokens, counts, 512, num_dies=2)
            in_flight = traffic(model, tokens // 2, counts, 512, num_dies=2)
            cells = []
            for rates in CLOCKS.values():
                times_s = (
                    whole.predicted_s(*rates),
                    sum(stage.predicted_s(*rates) for stage in after_another),
                    2 * max(stage.predicted_s(*rates) for stage in in_flight),
                )
                cells += [f"{tokens / time_s:.0f}" for time_s in times_s]
            lines.append(f"| {model.name} | {tokens} | {' | '.join(cells)} |")
    return lines


def main() -> None:
    counts: dict[tuple[str, str], float] = {}
    for fmt in FORMATS:
        counts |= per_weight_and_token(fmt)
    tables = {
        "kernels": kernel_table(),
        "formats": format_table(counts),
        "models": model_table(counts),
        "split": split_table(counts),
    }
    text = PAGE.read_text("utf-8")
    for name, lines in tables.items():
        start, end = f"<!-- {name} -->\n", f"<!-- end of {name} -->"
        before, rest = text.split(start)
        text = before + start + "\n".join(lines) + "\n" + end + rest.split(end)[1]
    PAGE.write_text(text, "utf-8")


if __name__ == "__main__":
    main()
