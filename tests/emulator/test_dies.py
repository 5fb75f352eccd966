"""Emulated dies look like those of K80 cards, and reach each other's memory only within a card."""

from __future__ import annotations

import ctypes

import numpy as np
import pytest

from tests.emulator.bench import context, kernel, pycuda_driver

FILL = 'extern "C" __global__ void fill(float *y) { y[threadIdx.x] = 3; }'


def test_dies_are_those_of_a_k80(emulated) -> None:
    emulated.reset(num_dies=4)
    cuda = pycuda_driver()
    assert cuda.Device.count() == 4
    die = cuda.Device(0)
    assert die.name() == "Tesla K80"
    assert die.compute_capability() == (3, 7)
    assert die.total_memory() == 11441 << 20
    buses = [cuda.Device(n).pci_bus_id() for n in range(4)]
    assert buses == ["0000:05:00.0", "0000:06:00.0", "0000:09:00.0", "0000:0A:00.0"]


def test_the_drivers_order_need_not_follow_the_cards(emulated) -> None:
    emulated.reset(num_dies=4, cards=(0, 1, 0, 1))
    cuda = pycuda_driver()
    group = cuda.device_attribute.MULTI_GPU_BOARD_GROUP_ID
    assert [cuda.Device(n).get_attribute(group) for n in range(4)] == [0, 1, 0, 1]
    assert cuda.Device(0).can_access_peer(cuda.Device(2))
    assert not cuda.Device(0).can_access_peer(cuda.Device(1))


def test_every_die_has_a_name_of_its_own(emulated) -> None:
    """cuDeviceGetUuid, which pycuda lacks."""
    library = ctypes.CDLL("libcuda.so.1")
    uuids = set()
    for die in (0, 1):
        uuid = (ctypes.c_ubyte * 16)()
        assert library.cuDeviceGetUuid_v2(uuid, die) == 0
        uuids.add(bytes(uuid))
    assert len(uuids) == 2
    assert all(uuid.startswith(b"emulated") for uuid in uuids)


def test_memory_of_another_die_needs_peer_access(emulated) -> None:
    cuda = pycuda_driver()
    x = np.arange(4, dtype=np.float32)
    with context(0) as first:
        source = cuda.to_device(x)
        with context(1) as second:
            target = cuda.mem_alloc(x.nbytes)
            with pytest.raises(cuda.LogicError, match="without peer access"):
                cuda.memcpy_dtod(target, source, x.nbytes)
            cuda.memcpy_peer(target, source, x.nbytes, second, first)
            assert cuda.from_device(target, 4, np.float32).tolist() == x.tolist()
            second.enable_peer_access(first)
            cuda.memcpy_dtod(target, source, x.nbytes)


@pytest.mark.parametrize("reset", [{"num_dies": 4}, {"num_dies": 2, "peers": False}], ids=str)
def test_dies_of_different_cards_cannot_be_peers(emulated, reset: dict) -> None:
    emulated.reset(**reset)
    cuda = pycuda_driver()
    words = "peer access is not supported"
    with (
        context(0) as first,
        context(reset["num_dies"] - 1) as second,
        pytest.raises(cuda.Error, match=words),
    ):
        second.enable_peer_access(first)


def test_a_kernel_gets_no_memory_of_another_die(emulated) -> None:
    cuda = pycuda_driver()
    with context(0):
        elsewhere = cuda.mem_alloc(256)
        with context(1), pytest.raises(cuda.Error, match="memory of die 0 is used on die 1"):
            kernel(FILL, "fill")(elsewhere, block=(4, 1, 1))


def test_a_kernel_runs_on_the_die_it_was_loaded_on(emulated) -> None:
    cuda = pycuda_driver()
    with context(0):
        loaded = kernel(FILL, "fill")
        with context(1), pytest.raises(cuda.Error, match="loaded on die 0 and launched on die 1"):
            loaded(cuda.mem_alloc(256), block=(4, 1, 1))


def test_an_event_is_recorded_where_it_was_made(emulated) -> None:
    cuda = pycuda_driver()
    with context(0):
        event = cuda.Event()
        with context(1), pytest.raises(cuda.Error, match="in a stream of another context"):
            event.record()


def test_images_of_real_dies_are_refused(emulated) -> None:
    from accel.cuda import nvrtc

    cuda = pycuda_driver()
    with context():
        for arch, words in (("sm_37", "cubin"), ("compute_37", "PTX")):
            image = nvrtc.compile_source(FILL, arch).image
            with pytest.raises(cuda.Error, match=words):
                cuda.module_from_buffer(image + b"\0")
