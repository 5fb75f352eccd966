"""The table of tensor formats."""

from __future__ import annotations

import pytest

from kernels.specs.quants import BY_GGML_TYPE, QUANTS, row_bytes


def test_names_and_type_ids_are_unique_and_agree():
    assert len(QUANTS) == len(BY_GGML_TYPE) == 34
    assert all(QUANTS[name].name == name for name in QUANTS)
    assert all(BY_GGML_TYPE[QUANTS[name].ggml_type] is QUANTS[name] for name in QUANTS)


def test_removed_formats_are_unknown():
    assert not {4, 5, 31, 32, 33, 36, 37, 38} & BY_GGML_TYPE.keys()


def test_it_agrees_with_the_reference_package():
    """Sizes as in the `gguf` package, but for Q8_1, which it gives an older layout; no file holds it."""
    constants = pytest.importorskip("gguf.constants")
    theirs = {
        kind.name: (int(kind), *sizes)
        for kind, sizes in constants.GGML_QUANT_SIZES.items()
        if kind.name != "Q8_1"
    }
    ours = {
        spec.name: (spec.ggml_type, spec.block_len, spec.block_bytes)
        for spec in QUANTS.values()
        if spec.name != "Q8_1"
    }
    assert theirs.items() <= ours.items()


@pytest.mark.parametrize(
    ("quant", "k", "num_bytes"),
    [
        ("F32", 5, 20),
        ("BF16", 3, 6),
        ("Q4_0", 64, 36),
        ("Q8_0", 32, 34),
        ("Q6_K", 512, 420),
        ("I8", 0, 0),
    ],
)
def test_rows_are_whole_quant_blocks(quant, k, num_bytes):
    assert row_bytes(quant, k) == num_bytes


@pytest.mark.parametrize(("quant", "k"), [("Q4_0", 16), ("Q4_K", 32), ("Q8_0", -32), ("F16", -1)])
def test_parts_of_a_quant_block_are_refused(quant, k):
    with pytest.raises(ValueError, match=f"A {quant} row holds"):
        row_bytes(quant, k)


def test_an_unknown_format_is_refused():
    with pytest.raises(KeyError):
        row_bytes("Q4_2", 32)
