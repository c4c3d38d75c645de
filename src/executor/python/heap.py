def settle_heap(libc, maps):
    # Lays this process's memory out for its forks. A fork pays for each page of which it writes to
    # a single word, and for each entry of the page tables, twice: when it is made and when it ends.
    #
    # Nothing depends on it. With another allocator or kernel than is assumed here, it is of less use.
    import ctypes

    # The largest piece that is allocated; up to the second size, pieces of every size are.
    PIECE_MAX, PIECE_SMALL, GRAIN = 1 << 16, 1024, 16
    MADV_COLLAPSE = 25

    def areas():
        # Start, end and name of what is no file's and can be written to: proc_pid_maps(5).
        for line in maps.read().splitlines():
            addresses, access, _, _, inode, *name = line.split(None, 5)
            name = "".join(name)
            if access == "rw-p" and inode == "0" and (not name or name.startswith(("[heap", "[anon"))):
                start, end = addresses.split("-")
                yield int(start, 16), int(end, 16), name

    def fill_holes(start, end):
        # Loading modules leaves hundreds of holes in the C library's heap, each on another page.
        # Filled, what a fork asks for lies side by side, behind all of them: a check by Z3 touches
        # half the pages. Nothing of it is freed, but for the pieces at the end.
        libc.malloc.restype, libc.malloc.argtypes = ctypes.c_void_p, [ctypes.c_size_t]
        libc.free.restype, libc.free.argtypes = None, [ctypes.c_void_p]
        size = PIECE_MAX
        while size > 0:
            # From the largest to the smallest, each until no hole is left that has room for it.
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
        # Into pages of two MiB, where there are such: one entry instead of 512.
        libc.madvise(ctypes.c_void_p(start), ctypes.c_size_t(end - start), MADV_COLLAPSE)
