"""A file that becomes shorter while it is open is refused where its bytes are read. Nothing is mapped."""

from __future__ import annotations

import os
import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from inference.loading import EngineSettings, LoadPlan, load_replica
from inference.model.errors import GGUFError
from inference.model.gguf import read_gguf
from kernels.cpu.pack import pack_gated, pack_weight
from kernels.specs.tensor import Part, Tensor, Weight
from tests.fakes.gguf_writer import Row, build, small_model
from tests.fakes.tiny_gguf import TinyShape, write_tiny_gguf
from tests.kernels.cpu.calls import Heap, Inline, random_tensor


def a_weight(tmp_path, tensor: Tensor, name: str = "w"):
    """The tensor in a file of its own, and the file."""
    path = tmp_path / f"{name}.gguf"
    rows, k = tensor.shape
    path.write_bytes(build([], [Row(name, (k, rows), 8)], tensor.data.tobytes()))
    return path, read_gguf(path)


def test_a_tensor_whose_end_is_gone_is_refused_by_name(tmp_path):
    path = tmp_path / "m.gguf"
    path.write_bytes(small_model())
    with read_gguf(path) as gguf:
        os.truncate(path, path.stat().st_size - 900)
        assert gguf.tensors["a.weight"].read(0, 34).tobytes()
        for gone in ("b.weight", "c.weight"):
            with pytest.raises(GGUFError, match=f"tensor '{gone}'.*became shorter") as refusal:
                _ = gguf.tensors[gone].data
            assert refusal.value.field == f"tensor '{gone}'"


def test_no_page_of_the_file_is_mapped(tmp_path):
    """Whoever touches a page of a mapping that is gone takes the process down."""
    path = tmp_path / "m.gguf"
    path.write_bytes(small_model())
    with read_gguf(path) as gguf:
        held = [tensor.data for tensor in gguf.tensors.values()]
        with open("/proc/self/maps") as maps:
            assert str(path) not in maps.read()
    assert held


@pytest.mark.parametrize("num_threads", [1, 3])
def test_packing_what_is_gone_ends_in_an_error(tmp_path, num_threads):
    """On whichever thread it is noticed."""
    path, gguf = a_weight(tmp_path, random_tensor("Q8_0", 4096, 1024))
    with gguf, ThreadPoolExecutor(num_threads) as pool:
        weight = Weight("w", (Part(gguf.tensors["w"]),))
        os.truncate(path, path.stat().st_size // 2)
        with pytest.raises(GGUFError, match="became shorter"):
            pack_weight(weight, Heap(), pool)


def test_packing_from_a_file_is_packing_from_memory(tmp_path):
    """Pieces of many sizes, rows out of order, several tensors, and a gate with its up."""
    order = np.arange(4800).reshape(-1, 2, 32).swapaxes(1, 2).reshape(-1)
    for row_order in (None, order, order[:1000]):
        tensor = random_tensor("Q8_0", 4800, 512, 1)
        _, gguf = a_weight(tmp_path, tensor)
        with gguf:
            (mine,) = pack_weight(
                Weight("w", (Part(gguf.tensors["w"], row_order), Part(tensor))), Heap(), Inline()
            )
            parts = (Part(tensor, row_order), Part(tensor))
            (theirs,) = pack_weight(Weight("w", parts), Heap(), Inline())
            np.testing.assert_array_equal(mine.data, theirs.data)
    up = random_tensor("Q8_0", 4800, 512, 2)
    (_, first), (_, second) = a_weight(tmp_path, tensor, "gate"), a_weight(tmp_path, up, "up")
    with first, second:
        in_files = [Weight(n, (Part(f.tensors[n]),)) for n, f in (("gate", first), ("up", second))]
        in_memory = [Weight("gate", (Part(tensor),)), Weight("up", (Part(up),))]
        mine, theirs = (pack_gated(*pair, Heap(), Inline()) for pair in (in_files, in_memory))
        np.testing.assert_array_equal(mine.data, theirs.data)


@pytest.mark.parametrize("backend", ["cpu", "reference"])
def test_a_load_whose_file_is_cut_off_under_it_is_refused(tmp_path, backend):
    """At the first word of progress after the header was read."""
    path = write_tiny_gguf(tmp_path / "m.gguf", shape=TinyShape(context_len=64))

    def progress(phase: str, _share: float) -> None:
        if phase != "reading the file" and path.stat().st_size > 20_000:
            os.truncate(path, 20_000)

    settings = EngineSettings(backend, kernel_cache_dir=None, num_threads=1)
    before = threading.active_count()
    with pytest.raises(GGUFError, match="became shorter"):
        load_replica(
            LoadPlan("r1", "m", path, "sha256:" + "0" * 64),
            settings,
            progress,
            lambda *_: None,
        )
    assert threading.active_count() == before
