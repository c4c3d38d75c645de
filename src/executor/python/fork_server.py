def serve(stream):
    # One trusted process for each list of modules. It loads those of verifications, and forks a child
    # for each script; the child takes every right away from itself and then waits for the script.
    # Only a child returns from here, with the script's code and with the function that ends it.
    #
    # No script is ever in this process, and it has one thread: a fork copies nothing but that.
    # `_signal` instead of `signal`, whose functions make enumerations of every number.
    import _signal, ctypes, gc, json, os, resource, select, socket, struct, sys

    options = json.loads(stream.readline())
    confinement = json.loads(stream.read())
    stream.close()

    CLONE_NEWNS, CLONE_NEWIPC = 0x00020000, 0x08000000
    CLONE_NEWUSER, CLONE_NEWPID = 0x10000000, 0x20000000
    # The numbers of system calls that the C library may have no function for.
    SECCOMP = {"x86_64": 317, "aarch64": 277}[os.uname().machine]
    PIDFD_OPEN, LANDLOCK_CREATE, LANDLOCK_ADD, LANDLOCK_RESTRICT = 434, 444, 445, 446
    CLOSE_RANGE, ALL_BEHIND = 436, 0xFFFFFFFF
    # A child's end of the server's socket, by which it reports that the script has ended.
    CONTROL = 3
    # The descriptor that takes a child's pictures, where they are wanted.
    PICTURES = 4
    CAPABILITIES_MAX = 64
    PR_CAPBSET_DROP, PR_SET_NO_NEW_PRIVS, PR_SET_THP_DISABLE = 24, 38, 41

    libc = ctypes.CDLL(None, use_errno=True)
    libc.syscall.restype = ctypes.c_long

    def checked(result):
        if result < 0:
            error = ctypes.get_errno()
            raise OSError(error, os.strerror(error))
        return result

    def system_call(number, *arguments):
        words = [ctypes.c_long(a) if isinstance(a, int) else a for a in arguments]
        return checked(libc.syscall(ctypes.c_long(number), *words))

    def receive(channel, size, descriptors_max):
        # Returns a message with descriptors, or an empty one at the end of the channel.
        room = socket.CMSG_SPACE(4 * descriptors_max)
        message, control, flags, _ = channel.recvmsg(size, room)
        data = b"".join(part for level, kind, part in control)
        return message, struct.unpack("%di" % (len(data) // 4), data)

    def send(channel, message, descriptor):
        rights = (socket.SOL_SOCKET, socket.SCM_RIGHTS, struct.pack("i", descriptor))
        channel.sendmsg([message], [rights])

    def empty_bounding_set():
        for number in range(CAPABILITIES_MAX):
            # The kernel knows fewer, and says so for the first that it does not know.
            if libc.prctl(PR_CAPBSET_DROP, number, 0, 0, 0) < 0:
                break

    no_capabilities = struct.pack("Ii", 0x20080522, 0), bytes(24)

    def drop_capabilities():
        checked(libc.capset(*no_capabilities))

    # --- process 1 of each child's process numbers ---

    def make_inits(channel):
        # A small process, from before anything is loaded: its forks are cheap. It gets one end of
        # a socket for each init, and gives a descriptor of the init back.
        _signal.signal(_signal.SIGCHLD, _signal.SIG_IGN)
        itself = system_call(PIDFD_OPEN, os.getpid(), 0)
        # Inits have the same, and no program is ever executed.
        empty_bounding_set()
        while True:
            _, descriptors = receive(channel, 1, 1)
            if not descriptors:
                os._exit(0)
            checked(libc.unshare(CLONE_NEWPID))
            pid = os.fork()
            if pid == 0:
                be_init(descriptors[0])
            checked(libc.setns(itself, CLONE_NEWPID))
            init = system_call(PIDFD_OPEN, pid, 0)
            send(channel, b"+", init)
            os.close(init)
            os.close(descriptors[0])

    def be_init(lifeline):
        # Orphans of the run become its children, and the kernel reaps them, because SIGCHLD is
        # ignored. When it ends, the kernel kills all that is left of the run.
        try:
            os.dup2(lifeline, 0)
            system_call(CLOSE_RANGE, 1, ALL_BEHIND, 0)
            drop_capabilities()
            os.write(0, b"+")
            os.read(0, 1)
        finally:
            os._exit(0)

    # --- what this process is ---

    def read_own(name):
        return open(os.open("self/" + name, os.O_RDONLY, dir_fd=confinement["proc"]))

    def threads():
        with read_own("status") as lines:
            return next(int(line.split()[1]) for line in lines if line.startswith("Threads:"))

    # --- the children ---

    def write_own(name, text):
        descriptor = os.open("self/" + name, os.O_WRONLY, dir_fd=confinement["proc"])
        os.write(descriptor, text.encode())
        os.close(descriptor)

    def sock_fprog(instructions):
        # struct sock_fprog: a count and a pointer.
        buffer = ctypes.create_string_buffer(instructions, len(instructions))
        program = struct.pack("HxxxxxxP", len(instructions) // 8, ctypes.addressof(buffer))
        return ctypes.create_string_buffer(program, len(program)), buffer

    def confine(stdout, stderr, control, pictures, null):
        uid, gid = confinement["uid"], confinement["gid"]
        # A group and a session of its own, as a script has that is started alone.
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
        # What came for this child has higher numbers: the fork server keeps the lowest open itself.
        for descriptor in pictures:
            os.dup2(descriptor, PICTURES, inheritable=False)

        for kind, most in limits.items():
            resource.setrlimit(kind, (most, most))
        empty_bounding_set()
        drop_capabilities()
        checked(libc.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0))
        # Every page of the run takes a fault, by which its memory is watched.
        checked(libc.prctl(PR_SET_THP_DISABLE, 1, 0, 0, 0))

        ruleset = system_call(LANDLOCK_CREATE, *landlock_handled, 0)
        for access, beneath in landlock_rules:
            if isinstance(beneath, str):
                # A file system of this child.
                opened = os.open(beneath, os.O_PATH | os.O_CLOEXEC)
                system_call(LANDLOCK_ADD, ruleset, 1, struct.pack("=Qi", access, opened), 0)
                os.close(opened)
            else:
                system_call(LANDLOCK_ADD, ruleset, 1, beneath, 0)
        system_call(LANDLOCK_RESTRICT, ruleset, 0)
        # With the files that the rules name, of which there may be more than a script may have open.
        system_call(CLOSE_RANGE, CONTROL + 1 + len(pictures), ALL_BEHIND, 0)
        resource.setrlimit(resource.RLIMIT_NOFILE, (descriptors_max, descriptors_max))
        for program, _ in filters:
            system_call(SECCOMP, 1, 0, program)

    def least_limits():
        # What this process may have less of, no child gets more of.
        for name, most in confinement["limits"]:
            kind = getattr(resource, name)
            hard = resource.getrlimit(kind)[1]
            yield kind, most if hard == resource.RLIM_INFINITY else min(most, hard)

    def open_rules():
        # What is the same for every child is opened once; a file system of its own it opens itself.
        own = [folder for folder, _ in confinement["own_folders"]]
        for path, access in confinement["landlock"]["rules"]:
            if path in own:
                yield access, path
            else:
                beneath = os.open(path, os.O_PATH | os.O_CLOEXEC)
                yield access, struct.pack("=Qi", access, beneath)

    def generators():
        # Every one that a module has made for itself, besides that of `random`.
        import random

        found = [thing for thing in gc.get_objects() if isinstance(thing, random.Random)]
        return [thing for thing in found if not isinstance(thing, random.SystemRandom)]

    def reseed():
        # `random` itself is seeded by every fork.
        for generator in random_generators:
            generator.seed()
        # NumPy's own seed() takes a millisecond, so its
        # Mersenne twister gets its whole state.
        numpy = sys.modules.get("numpy")
        if "numpy.random" in sys.modules:
            key = numpy.frombuffer(os.urandom(4 * 624), dtype=numpy.uint32)
            state = {"bit_generator": "MT19937", "state": {"key": key, "pos": 624}}
            numpy.random.set_state(state)

    def rehearse(code_of):
        # Each page that a script's start and end touch is a page fault, and a copy: better now than
        # while somebody waits.
        exec(code_of(b"0"), {})
        flush()
        collect()

    def await_script():
        lengths = struct.unpack("<QQ", read_whole(CONTROL, 16))
        return [read_whole(CONTROL, length) for length in lengths]

    # --- the end of a script ---

    def exit_code(value):
        # Does with an uncaught exception what the interpreter does.
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
        # As the interpreter does it: a stream that cannot be written to is an exit code.
        failed = False
        # The first ones too: a script may have put others in their places.
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
                # Its frames hold the objects of the script's functions.
                traceback.clear_frames(value.__traceback__)
            value = None
            shut_threads_down()
            run_exit_functions()
        finally:
            failed = flush()
        # The objects of the script's names end with them. Those that methods may still need end last.
        lasting = (type(sys), type, type(flush), type(len))
        texts = [name for name in main if isinstance(name, str) and name != "__builtins__"]
        for name in [name for name in texts if not isinstance(main[name], lasting)] + texts:
            main[name] = None
        collect()
        # The output that could not be written the first time was reported.
        if not failed:
            failed = flush()
        return 120 if failed else code

    class Ending:
        def __enter__(self):
            pass

        def __exit__(self, kind, value, trace):
            sys.settrace(None)
            sys.setprofile(None)
            code = 1
            try:
                code = finish(value)
                if type(value) is KeyboardInterrupt:
                    _signal.signal(_signal.SIGINT, _signal.SIG_DFL)
                    os.kill(os.getpid(), _signal.SIGINT)
                # A child of the script's own may come here too; its end is not the script's.
                if os.getpid() == own_number:
                    os.write(CONTROL, b"=%d\n" % code)
            finally:
                os._exit(code)

    # --- the life of this process ---

    # Process numbers of its own, in the same user namespace: from these it may make others, for
    # each child, and come back. They begin with the next process.
    first = os.fork()
    if first:
        os._exit(os.WEXITSTATUS(os.waitpid(first, 0)[1]))

    requests = socket.socket(fileno=os.dup(1))
    null = os.open(os.devnull, os.O_RDWR)
    os.dup2(null, 0)
    os.dup2(null, 1)
    init_maker, theirs = socket.socketpair()
    maker = os.fork()
    if maker == 0:
        try:
            requests.close()
            init_maker.close()
            make_inits(theirs)
        except BaseException as error:
            print("no init could be made: %r" % error, file=sys.stderr, flush=True)
        finally:
            os._exit(1)
    theirs.close()

    filters = [sock_fprog(bytes.fromhex(digits)) for digits in confinement["filters"]]
    limits = dict(least_limits())
    descriptors_max = limits.pop(resource.RLIMIT_NOFILE)
    handled = confinement["landlock"]["handled"][: confinement["landlock"]["handled_count"]]
    handled = struct.pack("%dQ" % len(handled), *handled)
    landlock_handled = handled, len(handled)
    kept = load(options["modules"], threads)
    # Behind the modules, which may be hostile: from a folder that is open there is a way up.
    landlock_rules = list(open_rules())
    # The builtins that the bootstrap and the end of a script use, whatever the script makes of them.
    # The first use of compile() makes the classes of all nodes.
    import atexit, linecache, threading, traceback

    shut_threads_down, run_exit_functions = threading._shutdown, atexit._run_exitfuncs
    collect, first_streams = gc.collect, (sys.stdout, sys.stderr)
    compile("0", "<string>", "exec")
    # The functions' own first use.
    libc.unshare(0), libc.mount(b"", b"", b"", 0, b""), libc.prctl(-1, 0, 0, 0, 0)
    libc.setns(-1, 0), libc.capset(None, None), libc.syscall(ctypes.c_long(-1), b"")
    sys.stdout.flush()
    sys.stderr.flush()
    random_generators = generators()
    # What it prepares is the same in every child.
    code_of = bootstrap(compile, PICTURES if options["takes_pictures"] else None)
    gc.collect()
    with read_own("maps") as maps:
        settle_heap(libc, maps)
    gc.freeze()

    children = {}
    ended, wake = os.pipe()
    os.set_blocking(wake, False)
    os.set_blocking(ended, False)
    _signal.signal(_signal.SIGCHLD, lambda *_: None)
    _signal.set_wakeup_fd(wake, warn_on_full_buffer=False)
    poll = select.poll()
    poll.register(requests, select.POLLIN)
    poll.register(ended, select.POLLIN)
    requests.sendall(b"ready\n")
    while True:
        poll.poll()
        try:
            os.read(ended, 4096)
        except BlockingIOError:
            pass
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                break
            if pid == 0:
                break
            if pid == maker:
                os._exit(1)
            code = -os.WTERMSIG(status) if os.WIFSIGNALED(status) else os.WEXITSTATUS(status)
            requests.sendall(b"%s %d\n" % (children.pop(pid), code))
        if not select.select([requests], [], [], 0)[0]:
            continue
        name, descriptors = receive(requests, 16, 5)
        if len(descriptors) < 4:
            os._exit(0)
        stdout, stderr, control, lifeline, *pictures = descriptors
        send(init_maker, b"+", lifeline)
        _, (init,) = receive(init_maker, 1, 1)
        try:
            checked(libc.setns(init, CLONE_NEWPID))
            pid = os.fork()
        except OSError:
            # The server has changed its mind and let the init go, or there is no room.
            requests.sendall(b"%s -9\n" % name)
        else:
            if pid == 0:
                break
            children[pid] = name
        for descriptor in descriptors + (init,):
            os.close(descriptor)

    # From here on this is a child.
    try:
        _signal.set_wakeup_fd(-1)
        _signal.signal(_signal.SIGCHLD, _signal.SIG_DFL)
        # A script can look into this function. Of the other children it is to see nothing.
        children.clear()
        # Their numbers will be other files'.
        requests.detach()
        init_maker.detach()
        own_number = os.getpid()
        confine(stdout, stderr, control, pictures, null)
        reseed()
        rehearse(code_of)
        os.write(CONTROL, b"+")
        source, stdin = await_script()
        if stdin:
            give_stdin(stdin)
    except BaseException as error:
        print("a child could not be confined: %r" % error, file=sys.stderr, flush=True)
        os._exit(1)
    # What this function holds would be taken down with it, in every child.
    Ending.kept = sys._getframe()
    return code_of(source), Ending()


code, ending = serve(main.pop("script"))
with ending:
    exec(code, main)
