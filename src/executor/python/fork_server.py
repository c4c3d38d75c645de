def serve(stream):
    # The fork server for one list of modules. It loads the modules, and forks a child for each script. The child drops
    # all its rights and then waits for the script. Only a child returns from this function, with the script's code and
    # the object that ends the script.
    #
    # The fork server is trusted, and never runs a script. It has one thread, because a fork copies only the calling
    # thread. It uses `_signal`, because the functions of `signal` create an enumeration for each number.
    import _signal, ctypes, gc, json, mmap, os, resource, socket, struct, sys

    options = json.loads(stream.readline())
    # Whether runs are deterministic.
    is_fixed = options["is_fixed"]
    confinement = json.loads(stream.read())
    stream.close()

    CLONE_NEWNS, CLONE_NEWIPC = 0x00020000, 0x08000000
    CLONE_NEWUSER = 0x10000000
    # The numbers of system calls for which the C library may have no function.
    SECCOMP = {"x86_64": 317, "aarch64": 277}[os.uname().machine]
    LANDLOCK_CREATE, LANDLOCK_ADD, LANDLOCK_RESTRICT = 444, 445, 446
    CLOSE_RANGE, ALL_BEHIND = 436, 0xFFFFFFFF
    # The descriptor of a child for its socket to the server. The child reports the end of the script on it.
    CONTROL = 3
    # The descriptor for a child's plots, and for the counts of its checks.
    CHANNEL = 4
    PR_SET_NO_NEW_PRIVS, PR_SET_THP_DISABLE = 38, 41

    libc = ctypes.CDLL(None, use_errno=True)
    libc.syscall.restype = ctypes.c_long
    # PyDLL calls functions without releasing Python's global lock.
    forks = ctypes.PyDLL(confinement["forks"], use_errno=True)

    def checked(result):
        if result < 0:
            error = ctypes.get_errno()
            raise OSError(error, os.strerror(error))
        return result

    def system_call(number, *arguments):
        words = [ctypes.c_long(a) if isinstance(a, int) else a for a in arguments]
        return checked(libc.syscall(ctypes.c_long(number), *words))

    # --- information about this process ---

    def read_own(name):
        return open(os.open("self/" + name, os.O_RDONLY, dir_fd=confinement["proc"]))

    def threads():
        # The folder has two links, and one more for each thread (proc_task_getattr() of Linux). This function reads no
        # text such as `status`, because a longer PID makes the text longer, so the memory of fork servers would differ.
        return os.stat("self/task", dir_fd=confinement["proc"]).st_nlink - 2

    # --- the children ---

    def write_own(name, text):
        descriptor = os.open("self/" + name, os.O_WRONLY, dir_fd=confinement["proc"])
        os.write(descriptor, text.encode())
        os.close(descriptor)

    def sock_fprog(instructions):
        # Builds a struct sock_fprog: a count and a pointer.
        buffer = ctypes.create_string_buffer(instructions, len(instructions))
        program = struct.pack("HxxxxxxP", len(instructions) // 8, ctypes.addressof(buffer))
        return ctypes.create_string_buffer(program, len(program)), buffer

    def confine(stdout, stderr, control, channel, null):
        uid, gid = confinement["uid"], confinement["gid"]
        # Create a process group and a session, like for a script in a new interpreter.
        os.setsid()
        checked(libc.unshare(CLONE_NEWUSER | CLONE_NEWNS | CLONE_NEWIPC))
        write_own("setgroups", "deny")
        write_own("uid_map", "%d %d 1" % (uid, uid))
        write_own("gid_map", "%d %d 1" % (gid, gid))
        flags = ctypes.c_ulong(confinement["own_folder_flags"])
        for folder, mount_options in confinement["own_folders"]:
            at = os.fsencode(folder)
            checked(libc.mount(b"tmpfs", at, b"tmpfs", flags, mount_options.encode()))
        os.chdir(confinement["scratch"])

        os.dup2(null, 0)
        os.dup2(stdout, 1)
        os.dup2(stderr, 2)
        os.dup2(control, CONTROL, inheritable=False)
        # These calls replace no received descriptor. The received descriptors have higher numbers, because the lowest
        # descriptors of the fork server are always open.
        os.dup2(channel, CHANNEL, inheritable=False)

        for kind, most in limits.items():
            resource.setrlimit(kind, (most, most))
        checked(forks.fork_server_empty_bounding_set())
        checked(forks.fork_server_drop_capabilities())
        checked(libc.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0))
        # Disable huge pages. Each page then causes a page fault, so the supervisor can count the memory of the run.
        checked(libc.prctl(PR_SET_THP_DISABLE, 1, 0, 0, 0))

        ruleset = system_call(LANDLOCK_CREATE, *landlock_handled, 0)
        for access, beneath in landlock_rules:
            if isinstance(beneath, str):
                # This file system belongs to this child only.
                opened = os.open(beneath, os.O_PATH | os.O_CLOEXEC)
                system_call(LANDLOCK_ADD, ruleset, 1, struct.pack("=Qi", access, opened), 0)
                os.close(opened)
            else:
                system_call(LANDLOCK_ADD, ruleset, 1, beneath, 0)
        system_call(LANDLOCK_RESTRICT, ruleset, 0)
        # This call also closes the descriptors of the rules, which may be more than the script's limit of open files.
        system_call(CLOSE_RANGE, CHANNEL + 1, ALL_BEHIND, 0)
        resource.setrlimit(resource.RLIMIT_NOFILE, (descriptors_max, descriptors_max))
        if is_fixed:
            forks.fork_server_stay_on_processor()
        for program, _ in filters:
            system_call(SECCOMP, 1, 0, program)

    def least_limits():
        # If a limit of this process is lower, the limit of its children is lower too.
        for name, most in confinement["limits"]:
            kind = getattr(resource, name)
            hard = resource.getrlimit(kind)[1]
            yield kind, most if hard == resource.RLIM_INFINITY else min(most, hard)

    def open_rules():
        # Paths that all children share are opened once. Each child opens the paths on its own file systems.
        own = [folder for folder, _ in confinement["own_folders"]]
        for path, access in confinement["landlock"]["rules"]:
            if path in own:
                yield access, path
            else:
                beneath = os.open(path, os.O_PATH | os.O_CLOEXEC)
                yield access, struct.pack("=Qi", access, beneath)

    def generators():
        # Returns the generators that modules have created, without the generator of `random`.
        import random

        found = [thing for thing in gc.get_objects() if isinstance(thing, random.Random)]
        return [it for it in found if not isinstance(it, random.SystemRandom) and it is not random._inst]

    def reseed():
        # Python itself seeds the generator of `random` at each fork. This function seeds all other generators.
        for generator in random_generators:
            generator.seed()
        if "numpy.random" in sys.modules:
            set_numpy_state(sys.modules["numpy.random"], os.urandom(4 * 624))

    def rehearse(code_of):
        # Runs an empty script. This copies the memory pages that the start and the end of a script touch, before a
        # caller waits.
        exec(code_of(b"0"), {})
        rehearse_checks(compile)
        if is_fixed:
            # Use any values, because each script has its own values.
            fix(1, 0, bytes(32))
        flush()
        collect()

    def read_whole(size):
        # Reads `size` bytes with a C function. A loop in Python would make the memory layout depend on the sizes of
        # the parts that arrive. Ends the process if the server has closed the socket.
        whole = bytearray(size)
        if size:
            into = ctypes.byref(ctypes.c_char.from_buffer(whole))
            if forks.fork_server_read(CONTROL, into, ctypes.c_size_t(size)) != 0:
                os._exit(0)
        return whole

    def await_script():
        # `fixed` contains the start of the clock, the seed of random bits, and the seed of generators.
        fixed = struct.unpack("<QQ32s", read_whole(48)) if is_fixed else ()
        *lengths, inputs = struct.unpack("<QQQQQ", read_whole(40))
        return fixed, [read_whole(length) for length in lengths], inputs

    def fix(at_ns, bits_seed, seed):
        # A Python that was linked statically does not load the library of fixed clocks and random bits.
        if restart_clocks is not None:
            restart_clocks(ctypes.c_uint64(at_ns), ctypes.c_uint64(bits_seed))
        begin_again(seed, random_generators)

    # --- the end of a script ---

    def exit_code(value):
        # Handles an uncaught exception like the interpreter. Returns the exit code.
        if isinstance(value, SystemExit):
            code = value.code
            if code is None:
                return 0
            if isinstance(code, int):
                return code & 0xFF if -(1 << 63) <= code < 1 << 63 else 0xFF
            print(code, file=sys.stderr)
            return 1
        try:
            sys.excepthook(type(value), value, value.__traceback__)
        except SystemExit as error:
            return exit_code(error)
        except BaseException as error:
            import traceback

            print("Error in sys.excepthook:", file=sys.stderr)
            error.__context__ = None
            traceback.print_exception(type(error), error, error.__traceback__.tb_next)
            print("\nOriginal exception was:", file=sys.stderr)
            traceback.print_exception(type(value), value, value.__traceback__)
        return 1

    def flush():
        # Flushes the streams like the interpreter. Returns whether a stream could not be written.
        failed = False
        # Also flush the original streams, because the script may have replaced them.
        streams = [getattr(sys, "stdout", None), getattr(sys, "stderr", None)]
        streams += [stream for stream in first_streams if stream not in streams]
        for stream in streams:
            try:
                if stream is not None and not stream.closed:
                    stream.flush()
            except BaseException as error:
                failed = True
                if stream is streams[0]:
                    told = "Exception ignored in: %r\n%s: %s" % (stream, type(error).__name__, error)
                    print(told, file=sys.stderr)
        return failed

    def finish(value):
        code = 0
        try:
            if value is not None:
                code = 1
                code = exit_code(value)
                # Clear the frames, because they refer to objects of the script's functions.
                traceback.clear_frames(value.__traceback__)
            value = None
            shut_threads_down()
            run_exit_functions()
        finally:
            failed = flush()
        # Delete the script's global variables, which finalizes their objects. Classes, functions and modules
        # are deleted last, because methods of other objects may need them.
        lasting = (type(sys), type, type(flush), type(len))
        texts = [name for name in main if isinstance(name, str) and name != "__builtins__"]
        for name in [name for name in texts if not isinstance(main[name], lasting)] + texts:
            main[name] = None
        collect()
        # A failure of the first flush was already reported.
        if not failed:
            failed = flush()
        return 120 if failed else code

    class Ending:
        def __enter__(self):
            pass

        def reached_end(self, main):
            reached_end(main)

        def __exit__(self, kind, value, trace):
            sys.settrace(None)
            sys.setprofile(None)
            code = 1
            ended_by(value, main)
            try:
                code = finish(value)
                if type(value) is KeyboardInterrupt:
                    _signal.signal(_signal.SIGINT, _signal.SIG_DFL)
                    os.kill(os.getpid(), _signal.SIGINT)
                # A child of the script may also get here. Its end is not the end of the script.
                if os.getpid() == own_number:
                    os.write(CONTROL, b"=%d\n" % code)
            finally:
                os._exit(code)

    # --- the main loop of this process ---

    # Continue in a child, because a new PID namespace contains only the children of the process that created it. This
    # PID namespace belongs to the user namespace of the fork server. So processes in it may create further PID
    # namespaces, and may return from them (setns(2)).
    first = os.fork()
    if first:
        os._exit(os.WEXITSTATUS(os.waitpid(first, 0)[1]))

    requests = os.dup(1)
    null = os.open(os.devnull, os.O_RDWR)
    os.dup2(null, 0)
    os.dup2(null, 1)
    init_maker, theirs = socket.socketpair()
    maker = os.fork()
    if maker == 0:
        # This process creates the PID namespaces. It has loaded no modules, so its forks are cheap.
        os.close(requests)
        init_maker.close()
        forks.fork_server_make_inits(theirs.fileno())
    theirs.close()
    init_maker = init_maker.detach()

    filters = [sock_fprog(bytes.fromhex(digits)) for digits in confinement["filters"]]
    limits = dict(least_limits())
    descriptors_max = limits.pop(resource.RLIMIT_NOFILE)
    handled = confinement["landlock"]["handled"][: confinement["landlock"]["handled_count"]]
    handled = struct.pack("%dQ" % len(handled), *handled)
    landlock_handled = handled, len(handled)
    kept = load(options["modules"], threads)
    # Open the paths of the rules after the modules were loaded. Modules may be hostile, and an open folder gives
    # access to its parents.
    landlock_rules = list(open_rules())
    # Keep references to the functions that the bootstrap and the end of a script use, because the script may replace
    # them. Also call compile() once, because its first use creates the classes of all nodes.
    import atexit, linecache, threading, traceback

    shut_threads_down, run_exit_functions = threading._shutdown, atexit._run_exitfuncs
    collect, first_streams = gc.collect, (sys.stdout, sys.stderr)
    compile("0", "<string>", "exec")
    # Resolve these functions by a first use.
    libc.unshare(0), libc.mount(b"", b"", b"", 0, b""), libc.prctl(-1, 0, 0, 0, 0)
    libc.syscall(ctypes.c_long(-1), b"")
    forks.fork_server_empty_bounding_set, forks.fork_server_drop_capabilities
    forks.fork_server_stay_on_processor, forks.fork_server_read
    sys.stdout.flush()
    sys.stderr.flush()
    restart_clocks = getattr(libc, "fixed_restart", None) if is_fixed else None
    random_generators = generators()
    # The preparations are the same for every child.
    pictures = CHANNEL if options["takes_pictures"] else None
    # The seed is not known yet.
    seed = bytes(32) if is_fixed else None
    code_of, reached_end, ended_by, rehearse_checks, forked = bootstrap(compile, pictures, seed, CHANNEL)
    if is_fixed:
        before_fork, begin_again = forked
        before_fork()
    gc.collect()
    with read_own("maps") as maps:
        settle_heap(libc, maps)
    if not is_fixed:
        # Skip this step if runs are deterministic. Such runs must begin with the same memory, but the figures in
        # `smaps` depend on other processes.
        with read_own("smaps") as areas:
            release_files(libc, areas)
    gc.freeze()

    descriptors = (ctypes.c_int * 5)()
    is_awaited = forks.fork_children(requests, init_maker, maker, descriptors)
    if is_awaited < 0:
        print("this Python has no functions for a fork", file=sys.stderr, flush=True)
        os._exit(1)
    # Only children reach this point.
    try:
        stdout, stderr, control, _, channel = descriptors
        own_number = os.getpid()
        confine(stdout, stderr, control, channel, null)
        if not is_fixed:
            reseed()
        # Always rehearse for deterministic runs, because they must begin with the same memory.
        if is_fixed or not is_awaited:
            rehearse(code_of)
        # A script can read this frame, and must not see whether a caller waited for this child.
        del is_awaited
        os.write(CONTROL, b"+")
        fixed, (source, plan, call, stdin), inputs = await_script()
        if stdin:
            give_stdin(stdin)
        if inputs:
            main["inputs"] = give_inputs(read_whole, inputs)
        if is_fixed:
            fix(*fixed)
    except BaseException as error:
        print("a child could not be confined: %r" % error, file=sys.stderr, flush=True)
        os._exit(1)
    # Keep this frame alive, because freeing its objects would cost time in every child.
    Ending.kept = sys._getframe()
    return code_of(source, plan, call), Ending()


code, ending = serve(main.pop("script"))
with ending:
    exec(code, main)
    ending.reached_end(main)
