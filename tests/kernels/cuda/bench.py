"""One die, and kernels called on it with NumPy arrays."""

from __future__ import annotations

import numpy as np

from accel.cuda.modules import Modules
from kernels.cuda.formats import format_of
from kernels.cuda.pack import pack
from kernels.specs.quants import row_bytes


class Bench:
    """Arrays go to fresh memory of the die, and come back after the call where they were outputs."""

    def __init__(self, die):
        self.die, self._modules = die, Modules(die)

    def call(self, kernel, grid, *arguments):
        """Arrays among the arguments are passed by address and changed in place; None is a null."""
        regions, passed = [], []
        for argument in arguments:
            if argument is None:
                passed.append(0)
            elif isinstance(argument, np.ndarray):
                region = self.die.allocate(max(argument.nbytes, 4), "a test")
                self.die.copy_in(region.address, argument)
                regions.append((region, argument))
                passed.append(region.address)
            else:
                passed.append(argument)
        self._modules.launch_of(kernel)(grid, *passed)
        for region, argument in regions:
            if argument.flags.writeable:
                self.die.copy_out(argument, region.address)
        self.die.synchronize()
        for region, _ in regions:
            self.die.free(region)


def planes_of(tensor):
    """The tensor as a die's format, and its planes: read-only arrays, None where there is none."""
    rows, k = tensor.shape
    planes = pack(tensor.quant, tensor.data.reshape(rows, row_bytes(tensor.quant, k)))
    for plane in planes:
        if plane is not None:
            plane.flags.writeable = False
    return format_of(tensor.quant).name, planes


def frozen(values, dtype):
    """A read-only array."""
    array = np.array(values, dtype)
    array.flags.writeable = False
    return array
