def settle_heap(libc, maps):
    # Arranges the memory of this process so that its forks are fast. A forked child copies each page that it writes
    # to, even for a single word. The kernel also copies and frees each entry of the page tables.
    #
    # This is only an optimization. With another allocator or kernel, it has less effect.
    import ctypes

    # PIECE_MAX is the largest size of an allocation. Up to PIECE_SMALL, all sizes are allocated, in steps of GRAIN.
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
        # Fills the hundreds of holes that loading modules leaves in the C library's heap, on different pages. A child
        # then allocates adjacent memory at the end of the heap, so a check by Z3 touches half as many pages. The
        # pieces stay allocated.
        libc.malloc.restype, libc.malloc.argtypes = ctypes.c_void_p, [ctypes.c_size_t]
        libc.free.restype, libc.free.argtypes = None, [ctypes.c_void_p]
        size = PIECE_MAX
        while size > 0:
            # Allocate pieces of this size until no hole can contain another piece.
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
        # Use pages of 2 MiB if possible. Such a page needs one page table entry instead of 512.
        libc.madvise(ctypes.c_void_p(start), ctypes.c_size_t(end - start), MADV_COLLAPSE)


def release_files(libc, areas):
    # Removes unchanged pages of files, mostly libraries, from the page table of this process. The pages remain in the
    # kernel's page cache, and the next use of a page maps it again. Children lose nothing, because a fork does not copy
    # the page table entries of such pages: each child maps the pages that it uses. `areas` has the lines of
    # proc_pid_smaps(5).
    import ctypes

    MADV_DONTNEED = 4
    area = None
    for line in areas:
        name, *values = line.split()
        if not name.endswith(":"):
            access, _, _, inode = values[:4]
            area = name.split("-") if access in ("r-xp", "r--p") and inode != "0" else None
        elif name == "Anonymous:" and area is not None and values[0] == "0":
            start, end = (int(address, 16) for address in area)
            libc.madvise(ctypes.c_void_p(start), ctypes.c_size_t(end - start), MADV_DONTNEED)
