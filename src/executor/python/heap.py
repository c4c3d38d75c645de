def settle_heap(libc, maps):
    # Arranges the memory of this process so that its forks are fast. A fork copies each page that it writes
    # to, even for a single word. It also pays for each entry of the page tables twice: when it starts and
    # when it ends.
    #
    # This is only an optimization. With another allocator or kernel it has less effect.
    import ctypes

    # The largest size of an allocation. Up to PIECE_SMALL, all sizes (in steps of GRAIN) are allocated.
    PIECE_MAX, PIECE_SMALL, GRAIN = 1 << 16, 1024, 16
    MADV_COLLAPSE = 25

    def areas():
        # Yields the start, end and name of each writable area without a file (proc_pid_maps(5)).
        for line in maps.read().splitlines():
            addresses, access, _, _, inode, *name = line.split(None, 5)
            name = "".join(name)
            if access == "rw-p" and inode == "0" and (not name or name.startswith(("[heap", "[anon"))):
                start, end = addresses.split("-")
                yield int(start, 16), int(end, 16), name

    def fill_holes(start, end):
        # Loading modules leaves hundreds of holes in the C library's heap, on different pages. After the
        # holes are filled, the allocations of a fork are next to each other at the end of the heap. A check
        # by Z3 then touches half the pages. The pieces stay allocated, except those at the end.
        libc.malloc.restype, libc.malloc.argtypes = ctypes.c_void_p, [ctypes.c_size_t]
        libc.free.restype, libc.free.argtypes = None, [ctypes.c_void_p]
        size = PIECE_MAX
        while size > 0:
            # Allocate pieces of each size until no hole has room for another one, from the largest size to
            # the smallest.
            while True:
                piece = libc.malloc(size - GRAIN // 2)
                if piece is None or not start <= piece < end:
                    break
            libc.free(piece)
            size = size * 7 // 8 // GRAIN * GRAIN if size > PIECE_SMALL else size - GRAIN

    writable = list(areas())
    heap = [address for start, end, name in writable if name == "[heap]" for address in (start, end)]
    if heap:
        fill_holes(min(heap), max(heap))
    for start, end, _ in writable:
        # Use pages of 2 MiB if possible. Each needs one page table entry instead of 512.
        libc.madvise(ctypes.c_void_p(start), ctypes.c_size_t(end - start), MADV_COLLAPSE)
