"""Divides with rounding, and compares with the limits between which values round to the number."""

claimed = 1_863

size = 2 * 10**12
rounded = (2 * size + 2**30) // 2**31
between = [n for n in range(1_500, 2_500) if (2 * n - 1) * 2**29 <= size < (2 * n + 1) * 2**29]
print(rounded, between, size / 2**30)
assert [rounded] == between
assert rounded == claimed
