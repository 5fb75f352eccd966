"""Whatever a file holds, it is refused or every tensor of it lies inside it."""

from __future__ import annotations

import itertools
import math
import struct

import numpy as np
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from inference.model.errors import GGUFError
from inference.model.gguf import read_gguf
from kernels.specs.quants import BY_GGML_TYPE, row_bytes
from tests.fakes.gguf_writer import CODES, Row, array, build, pair, small_model, text

SMALL = small_model()
KINDS = sorted(CODES)
EDGES = st.sampled_from(
    [0, 1, 2, 31, 32, 33, 64, 255, 256, 2**16, 2**31, 2**32 - 1, 2**40, 2**63, 2**64 - 1]
)
INTEGERS = st.one_of(EDGES, st.integers(0, 600))


@st.composite
def pairs(draw):
    key = draw(st.one_of(st.text(max_size=12), st.sampled_from(["general.alignment", "a"])))
    key = key.encode("utf-8", "replace")
    match draw(st.sampled_from(["scalar", "string", "array", "strings", "raw"])):
        case "scalar":
            kind = draw(st.sampled_from(KINDS))
            return pair(
                key, kind, draw(st.binary(min_size=8, max_size=8))[: struct.calcsize(CODES[kind])]
            )
        case "string":
            return pair(key, "string", draw(st.binary(max_size=20)))
        case "array":
            kind = draw(st.sampled_from(KINDS))
            raw = draw(st.binary(max_size=64))
            count = draw(st.one_of(EDGES, st.just(len(raw) // struct.calcsize(CODES[kind]))))
            return array(key.decode(), kind, raw, count=count)
        case "strings":
            return array(key.decode(), "string", draw(st.lists(st.binary(max_size=9), max_size=9)))
        case _:
            return text(key) + draw(st.binary(max_size=40))


@st.composite
def rows(draw):
    dims = tuple(draw(st.lists(INTEGERS, min_size=1, max_size=4)))
    return Row(
        name=draw(st.one_of(st.sampled_from(["a", "b"]), st.text(max_size=66))).encode(
            "utf-8", "replace"
        ),
        dims=dims,
        ggml_type=draw(st.one_of(st.sampled_from(sorted(BY_GGML_TYPE)), st.integers(0, 50))),
        offset=draw(st.one_of(st.integers(0, 40).map(lambda n: n * 32), EDGES)),
        num_dims=draw(st.one_of(st.none(), st.integers(0, 6))),
    )


@st.composite
def structured_files(draw):
    """Files of the right form with wrong contents here and there."""
    chosen_pairs = draw(st.lists(pairs(), max_size=5))
    chosen_rows = draw(st.lists(rows(), max_size=4))
    return build(
        chosen_pairs,
        chosen_rows,
        bytes(draw(st.integers(0, 3000))),
        version=draw(st.sampled_from([2, 3, 3, 3, 1, 4])),
        num_pairs=draw(st.one_of(st.none(), st.none(), st.none(), EDGES)),
        num_tensors=draw(st.one_of(st.none(), st.none(), st.none(), EDGES)),
    )


@st.composite
def likely_files(draw):
    """Files that are mostly valid: tensors laid out one after another, now and then moved."""
    chosen, offset = [], 0
    for index in range(draw(st.integers(1, 5))):
        spec = BY_GGML_TYPE[draw(st.sampled_from(sorted(BY_GGML_TYPE)))]
        k, num = spec.block_len * draw(st.integers(1, 3)), draw(st.integers(1, 4))
        moved = draw(st.sampled_from([0, 0, 0, 0, 32, -32, 1]))
        chosen.append(Row(f"t{index}", (k, num), spec.ggml_type, max(offset + moved, 0)))
        offset += -(-num * row_bytes(spec.name, k) // 32) * 32
    cut = draw(st.sampled_from([0, 0, 0, 1, 32, 100]))
    return build([], draw(st.permutations(chosen)), bytes(max(offset - cut, 0)))


@st.composite
def mutated_files(draw):
    """A valid file with some bytes or words changed, or a piece cut out."""
    content = bytearray(SMALL)
    for _ in range(draw(st.integers(1, 4))):
        at = draw(st.integers(0, len(content) - 1025))
        match draw(st.sampled_from(["byte", "word", "cut", "insert"])):
            case "byte":
                content[at] = draw(st.integers(0, 255))
            case "word":
                content[at : at + 8] = struct.pack("<Q", draw(INTEGERS))
            case "cut":
                del content[at : at + draw(st.integers(1, 16))]
            case "insert":
                content[at:at] = draw(st.binary(min_size=1, max_size=16))
    return bytes(content)


ANY_FILE = st.one_of(structured_files(), likely_files(), mutated_files(), st.binary(max_size=300))


def check(path, content: bytes) -> bool:
    """Whether the file was accepted. Fails unless what was accepted is sound."""
    path.write_bytes(content)
    try:
        gguf = read_gguf(path)
    except GGUFError as error:
        assert error.field and error.reason and str(error).isprintable()
        return False
    with gguf:
        spans = []
        for name, tensor in gguf.tensors.items():
            assert tensor.name == name and 1 <= len(tensor.shape) <= 4
            *lead, k = tensor.shape
            assert tensor.num_bytes == math.prod(lead) * row_bytes(tensor.quant, k) > 0
            begin = tensor.content.start
            spans.append((begin, begin + tensor.num_bytes))
            # Reading the bytes is the proof that they are there.
            assert tensor.data.tobytes() == content[begin : begin + tensor.num_bytes]
        spans.sort()
        assert all(end <= begin for (_, end), (begin, _) in itertools.pairwise(spans))
        assert sum(end - begin for begin, end in spans) <= len(content)
        for value in gguf.metadata.values():
            assert isinstance(value, bool | int | float | str | list | np.ndarray)
    return True


@settings(
    max_examples=400, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(content=ANY_FILE)
@example(content=SMALL)
def test_a_file_is_refused_or_sound(tmp_path, content):
    check(tmp_path / "fuzz.gguf", content)


@pytest.mark.slow
@settings(max_examples=50_000, deadline=None, suppress_health_check=list(HealthCheck))
@given(content=ANY_FILE)
def test_a_file_is_refused_or_sound_at_length(tmp_path, content):
    check(tmp_path / "fuzz.gguf", content)


def test_the_fuzz_reaches_both_outcomes(tmp_path):
    """A generator whose files were all refused, or all accepted, would prove nothing."""
    outcomes = []

    @settings(max_examples=100, deadline=None, database=None, derandomize=True)
    @given(content=likely_files())
    def run(content):
        outcomes.append(check(tmp_path / "fuzz.gguf", content))

    run()
    assert 10 < sum(outcomes) < len(outcomes) - 10
