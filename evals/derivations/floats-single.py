"""Converts with NumPy, and with the module struct."""

import struct

import numpy as np

claimed = "greater"

by_numpy = float(np.float32(0.1))
[by_struct] = struct.unpack("<f", struct.pack("<f", 0.1))
print(f"{by_numpy:.20f}", f"{0.1:.20f}")
assert by_numpy == by_struct
found = "greater" if by_numpy > 0.1 else "not greater"
assert found == claimed
