"""What a tiny model must answer over HTTP: greedy tokens with their margins, and the first one's logits.

Owns where the numbers come from (stored reference data; for weights rounded at load, the reference backend,
which meets that data) and the comparison with a completion's logprobs; knows no server.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from openai.types import Completion

from accel.reference.backend import ReferenceBackend
from inference.model.architectures import record
from inference.model.fusion import fuse
from inference.model.gguf import read_gguf
from inference.text.detokenizer import Detokenizer
from inference.text.tokenizer import Tokenizer
from tests.conftest import GOLDEN
from tests.fakes.prompt_runs import one_slot_limits, prefill, run_rows

# Of float32 keys and values (tests/golden/README.md).
FLOAT, GELU_TABLE = 2e-3, 3e-2
NUM_GREEDY = 32
NUM_LOGPROBS = 8

Floats = npt.NDArray[np.float32]


@dataclass(frozen=True)
class Model:
    """`quantise`: float weights become Q8_0 at load."""

    stem: str
    quantise: bool = False

    @property
    def path(self) -> str:
        return str(GOLDEN / "tiny" / f"{self.stem}.gguf")

    @property
    def name(self) -> str:
        return f"{self.stem}-as-Q8_0" if self.quantise else self.stem


@dataclass(frozen=True, eq=False)
class Expected:
    """`margins[i]`: by how much the logit of ids[i] exceeds the next. `logits`: of the first token, (V,) f32.

    Logits are within `tolerance`, margins within twice `margin_tolerance`.
    """

    prompt: list[int]
    ids: list[int]
    margins: Floats
    logits: Floats
    tolerance: float
    margin_tolerance: float


def expected(model: Model, prompt: str) -> Expected:
    with np.load(GOLDEN / "tiny" / f"{model.stem}.npz") as reference:
        ids: list[int] = reference[f"ids/{prompt}"].tolist()
        if model.quantise:
            return _computed(model, ids)
        key, margin_tolerance = f"exact/kvf32/{prompt}", FLOAT
        logits = reference[f"{key}/last_logits"]
        if model.stem.startswith("gemma3"):  # whose GELU llama.cpp takes from a table
            margin_tolerance = GELU_TABLE
            logits = reference[f"transformers/{prompt}/last_logits"]
        greedy, margins = reference[f"{key}/greedy_ids"], reference[f"{key}/greedy_margin"]
        return _clear(ids, greedy.tolist(), margins, logits, margin_tolerance)


def _computed(model: Model, prompt: list[int]) -> Expected:
    limits = one_slot_limits(len(prompt) + NUM_GREEDY)
    with read_gguf(GOLDEN / "tiny" / f"{model.stem}.gguf") as file:
        program = fuse(record(file, quantise=True)[1])
        executor = ReferenceBackend().compile(program, limits, lambda phase, share: None)
    rows = [prefill(executor, prompt, limits)[-1]]
    table = [list(range(limits.max_pages_per_slot))]
    for at in range(NUM_GREEDY - 1):
        rows.append(run_rows(executor, [int(rows[-1].argmax())], len(prompt) + at, table)[0])
    executor.close()
    top = np.sort(np.array(rows), axis=-1)
    ids = [int(row.argmax()) for row in rows]
    return _clear(prompt, ids, top[:, -1] - top[:, -2], rows[0], FLOAT)


def _clear(
    prompt: list[int], ids: list[int], margins: Floats, logits: Floats, margin_tolerance: float
) -> Expected:
    """The tokens up to the first that an error within the tolerance could change."""
    unclear = np.flatnonzero(margins < 2 * margin_tolerance)
    end = int(unclear[0]) if len(unclear) else len(ids)
    return Expected(prompt, ids[:end], margins[:end], logits, FLOAT, margin_tolerance)


def check(model: Model, wanted: Expected, answer: Completion) -> None:
    """The text, token by token, and the numbers behind it."""
    choice = answer.choices[0]
    assert choice.text == _text_of(model, wanted.ids)
    assert choice.logprobs is not None and choice.logprobs.top_logprobs is not None
    tops = [sorted(of.values(), reverse=True) for of in choice.logprobs.top_logprobs]
    # Tokens of the same text (a letter and its byte) share a key of this format, and leave one out.
    whole = [i for i, top in enumerate(tops) if len(top) == NUM_LOGPROBS]
    # A normalised logit is off by as much as its own logit and all others together: twice the tolerance.
    logprobs = np.sort(_log_softmax(wanted.logits))[::-1][:NUM_LOGPROBS]
    first = tops[0] if 0 in whole else choice.logprobs.token_logprobs[:1]
    np.testing.assert_allclose(first, logprobs[: len(first)], rtol=0, atol=2 * wanted.tolerance)
    margins = [tops[i][0] - tops[i][1] for i in whole]
    np.testing.assert_allclose(
        margins, wanted.margins[whole], rtol=0, atol=2 * wanted.margin_tolerance
    )


def _text_of(model: Model, ids: list[int]) -> str:
    with read_gguf(GOLDEN / "tiny" / f"{model.stem}.gguf") as file:
        tokenizer = Tokenizer.from_metadata(file.metadata)
    detokenizer = Detokenizer(tokenizer)
    return "".join(map(detokenizer.push, ids)) + detokenizer.flush()


def _log_softmax(logits: Floats) -> npt.NDArray[np.float64]:
    shifted = logits.astype(np.float64) - logits.max()
    result: npt.NDArray[np.float64] = shifted - np.log(np.exp(shifted).sum())
    return result
