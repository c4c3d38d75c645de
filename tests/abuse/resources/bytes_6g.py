# attack: allocate six gigabytes at once
# t3: MemoryError
# t2: MemoryError
# control: harm
attempt(lambda: bytes(6 << 30))
