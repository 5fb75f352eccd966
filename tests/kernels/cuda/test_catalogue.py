"""The catalogue: complete sources, one record a kernel, arguments as the sources declare them."""

from __future__ import annotations

import re

import pytest

from kernels.cuda.catalogue import CATALOGUE, source_of
from tests.test_architecture import ROOT

FILES = sorted({kernel.file for kernel in CATALOGUE})
CODES = {"int": "i", "float": "f"}


def test_names_are_unique():
    names = [kernel.name for kernel in CATALOGUE]
    assert len(names) == len(set(names))


def test_every_source_is_in_it():
    assert {path.name for path in (ROOT / "kernels/cuda").glob("*.cu")} == set(FILES)


@pytest.mark.parametrize("file", FILES)
def test_sources_are_complete(file):
    """Nothing is left to include but the compiler's own headers; every entry has a record."""
    source = source_of(file)
    assert '#include "' not in source
    entries = {kernel.entry for kernel in CATALOGUE if kernel.file == file}
    declared = re.findall(r"__global__ void __launch_bounds__\(.*\)\s+(\w+)\(", source)
    declared += re.findall(r"^ENTRY\((\w+),", source, re.MULTILINE)
    assert entries == set(declared) - {"name"}


@pytest.mark.parametrize("file", FILES)
def test_headers(file):
    """Every kernel file opens with a comment: its mapping to threads, how it adds up, its reference."""
    header = source_of(file).split("\n\n#include")[0].split("\nextern")[0]
    assert header.startswith("//")
    assert "Mapping" in header or "One thread a value" in header or "thread block of" in header
    assert "sum" in header.lower()
    assert "Reference: kernels/reference/" in header


@pytest.mark.parametrize("file", FILES)
def test_arguments_are_those_declared(file):
    """A wrong code would shift every argument after it."""
    source = re.sub(r"\\\n", "\n", source_of(file))
    for kernel in (kernel for kernel in CATALOGUE if kernel.file == file):
        name = "name" if "ENTRY(" in source else kernel.entry
        found = re.search(rf"\b{name}\(((?:const|float|int|unsigned)[^)]*)\)", source)
        assert found, kernel.entry
        parameters = [" ".join(p.split()) for p in found[1].split(",")]
        codes = ["P" if "*" in p else CODES[p.split()[0]] for p in parameters]
        assert "".join(codes) == kernel.arguments, kernel.name


def test_the_page_of_kernels_names_them_all():
    """`python -m benchmarks.dies_on_paper` rewrites its tables."""
    page = (ROOT / "docs" / "kernels.md").read_text("utf-8")
    assert not [kernel.name for kernel in CATALOGUE if f"| {kernel.name} |" not in page]
