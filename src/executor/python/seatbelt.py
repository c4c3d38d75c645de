# Enters the sandbox of macOS (Seatbelt), before any line of a script or of an installed package runs. Python was
# started with only its standard library (-S), in an empty folder, and without PYTHONPATH. The rest of Python's start
# follows inside the sandbox. The result is written to standard input, a socket.


def enter(main):
    import sys

    # The current folder is the script's own folder.
    if sys.path and sys.path[0] == "":
        del sys.path[0]
    import ctypes, json, os, resource

    order = json.loads(main["script"].readline())

    def give_up(reason):
        os.write(0, json.dumps({"EnterSeatbelt": reason}).encode() + b"\n")
        os._exit(1)

    def limit_address_space():
        # Limits the address space, so that an allocation fails (MemoryError) before the kernel ends the process. An
        # arm64 process starts with hundreds of GiB of reserved address space. The kernel refuses a limit below this
        # size, so this function searches for the smallest accepted limit. It removes the limit if a test allocation
        # within the limit fails. The kernel's limit of the used memory applies in any case.
        import mmap

        kind = resource.RLIMIT_AS
        hard = resource.getrlimit(kind)[1]
        refused, taken = 0, 1 << 47
        while taken - refused > 1 << 30:
            middle = (refused + taken) // 2
            try:
                resource.setrlimit(kind, (middle, hard))
                taken = middle
            except (ValueError, OSError):
                refused = middle
        most = taken + order["address_space_bytes"]
        try:
            resource.setrlimit(kind, (most, hard))
            mmap.mmap(-1, 64 << 20).close()
            resource.setrlimit(kind, (most, most))
        except (ValueError, OSError):
            resource.setrlimit(kind, (hard, hard))

    def hold():
        try:
            library = ctypes.CDLL(order["library"])
            init, check = library.sandbox_init_with_parameters, library.sandbox_check
        except (OSError, AttributeError):
            give_up("this system has no sandbox_init_with_parameters, or no sandbox_check")
        texts = [text.encode() for pair in order["profile"]["parameters"] for text in pair]
        parameters = (ctypes.c_char_p * (len(texts) + 1))(*texts, None)
        init.argtypes = [
            ctypes.c_char_p, ctypes.c_uint64, ctypes.POINTER(ctypes.c_char_p),
            ctypes.POINTER(ctypes.c_char_p),
        ]
        reason = ctypes.c_char_p()
        if init(order["profile"]["text"].encode(), 0, parameters, ctypes.byref(reason)) != 0:
            # Remove paths, because clients see this reason.
            words = (reason.value or b"no reason is given").decode(errors="replace").split()
            give_up(" ".join(word for word in words if "/" not in word)[:200])
        # The first argument is a PID. Without an operation, the call returns whether the process is in a sandbox.
        check.argtypes = [ctypes.c_int, ctypes.c_char_p, ctypes.c_int]
        if check(os.getpid(), None, 0) != 1:
            give_up("according to the kernel, the process is in no sandbox")

    limit_address_space()
    hold()
    os.write(0, b"entered\n")

    # Do the rest of the normal start of an interpreter.
    if not order["is_isolated"]:
        if order["python_path"]:
            os.environ["PYTHONPATH"] = order["python_path"]
            sys.path[:0] = order["python_path"].split(os.pathsep)
        import site

        site.main()
    os.environ.pop("__PYVENV_LAUNCHER__", None)


enter(main)
exec(__import__("marshal").load(main["script"]), {"main": main})
