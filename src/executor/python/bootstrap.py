def give_stdin(data):
    # Makes `data` the standard input of the script. The data is in a deleted file of the scratch folder, so no process
    # must write while the script reads. The script's descriptor is read-only.
    import os

    name = ".stdin"
    writer = os.open(name, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    reader = os.open(name, os.O_RDONLY)
    os.unlink(name)
    os.dup2(reader, 0)
    os.close(reader)
    rest = memoryview(data)
    while rest:
        rest = rest[os.write(writer, rest) :]
    os.close(writer)


def give_inputs(read, size):
    # Writes the files that the caller passed with the script into the current folder, which only the script can read.
    # Returns the dictionary `inputs`, with a string, bytes or a value for each file. `read(n)` returns exactly n
    # bytes. `size` is the size of all files with their headers.
    import mmap, os, sys

    # Disable imports from archives, because an input could be an archive of modules that were not analysed.
    sys.path_hooks[:] = [hook for hook in sys.path_hooks if getattr(hook, "__name__", "") != "zipimporter"]
    inputs = {}
    while size:
        form, name_size, *length = read(10)
        name, length = str(read(name_size), "ascii"), int.from_bytes(length, "little")
        size -= 10 + name_size + length
        file = os.open(name, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o444)
        rest = length
        while rest:
            part = read(min(rest, 1 << 16))
            rest -= len(part)
            while part:
                part = part[os.write(file, part) :]
        # Map the file, because each page of a buffer would cause a page fault. An empty file cannot be mapped.
        content = mmap.mmap(file, length, prot=mmap.PROT_READ) if length else b""
        os.close(file)
        if form == ord("b"):
            inputs[name] = bytes(content)
            continue
        inputs[name] = str(content, "utf-8")
        if form == ord("j"):
            import json

            inputs[name] = json.loads(inputs[name])
    return inputs


def bootstrap(compile=None, pictures=None, seed=None, channel=None):
    # Prepares the interpreter to run a script as `python script.py` would run a file with the name "<verification>".
    # Tracebacks show the lines of the script, and no frame of this function.
    #
    # Returns four functions and the value `forked`. `code_of` compiles the script from its source, its plan of checks
    # and the call of a test. `reached_end` reports that the script has run to its last statement, and sends the value
    # of the call. `ended_by` reports the exception that ended the script. Without a call, `reached_end` and `ended_by`
    # send the value of the variable `result`. `rehearse` is from check_counters(). `forked` contains the functions of
    # fixed_seeds() for a fork, or is None.
    #
    # `compile` is the builtin function if it was used before, otherwise None. `pictures` is the descriptor for the
    # script's figures, or None. `seed` contains the bytes that seed random numbers in deterministic runs, or is None.
    # `channel` is the descriptor for the counts of the checks and for the report about the end of the script, or None.
    import builtins, os, sys

    source = ""
    own_number = None
    expression = ""
    evaluate, (encode, encode_result) = builtins.eval, value_encoder()
    # Keep references to these functions, because the script may replace them.
    write, number_of_process, length, view = os.write, os.getpid, len, memoryview
    is_a, end_of_script = isinstance, SystemExit
    own_names = {"__name__": "members", "__builtins__": dict(vars(builtins))}
    list_members = type(bootstrap)(members_of.__code__, own_names)
    final = None
    null = os.open(os.devnull, os.O_RDONLY)
    os.dup2(null, 0)
    os.close(null)

    name = "<verification>"
    # The file names of the code of `python -c` and of this file, whose frames tracebacks must not show.
    hidden = ("<string>", "<bootstrap>")
    sys.argv[:] = [name]
    if sys.path and sys.path[0] == "":
        del sys.path[0]
    # Use line buffering as on a terminal, so that a run that times out keeps its output.
    sys.stdout.reconfigure(line_buffering=True)

    def code_of(script, plan=b"", call=b""):
        nonlocal source, own_number, expression
        expression = str(call, "utf-8")
        own_number = number_of_process()
        begin()
        source = str(script, "utf-8")
        if "linecache" not in Seeds.waiting:
            seed_linecache(sys.modules["linecache"])
        if plan:
            code = counted(source, str(plan, "ascii"), compile or builtins.compile)
            return renamed(code)
        if compile is not None:
            return renamed(compile(source, "<string>", "exec", dont_inherit=True))
        # The first use of compile() creates all node classes of the module `ast`, which takes a tenth of the
        # interpreter's start. exec() does not do this. Therefore exec() compiles the script. A trace
        # function stops the script before its first line, and takes the code object.
        class Stop(BaseException):
            pass

        codes = []
        scope = {}

        def take(frame, event, argument):
            # Compare the globals and not the file name, because a warning of the compiler runs other code
            # first, with any file name.
            if frame.f_globals is scope:
                codes.append(frame.f_code)
                raise Stop

        sys.settrace(take)
        try:
            exec(source, scope)
        except Stop:
            pass
        finally:
            sys.settrace(None)
        return renamed(codes[0])

    def send(kind, content):
        rest = view(kind + length(content).to_bytes(4, "little") + content)
        try:
            while rest:
                rest = rest[write(channel, rest) :]
        except OSError:
            # The script has closed the descriptor.
            pass

    def reached_end(main):
        # A child process of the script may also get here, but its end is not the end of the script.
        if channel is None or number_of_process() != own_number:
            return
        record_end(None)
        send(b"E", b"")
        if expression:
            send(b"R", encode(evaluate("(%s\n)" % expression, main)))
        send_result(main)

    def ended_by(error, main):
        nonlocal final
        record_end(error)
        is_own = channel is not None and number_of_process() == own_number
        if error is not None and is_own:
            send_result(main)
            # Keep no reference to a SystemExit, so that Python deletes the objects of its frames at once.
            final = None if is_a(error, end_of_script) else error

    def send_result(main):
        try:
            if not expression and "result" in main:
                send(b"J", encode_result(main["result"]))
            if observed is not None:
                send(b"D", observed().encode())
        except BaseException:
            # An error in these reports must not change how the script ends.
            pass

    def send_members(error):
        tracer, profiler = sys.gettrace(), sys.getprofile()
        sys.settrace(None)
        sys.setprofile(None)
        try:
            members = list_members(error, source)
            if members is not None:
                send(b"M", members)
        except BaseException:
            # An error in this advice must not change how the script ends.
            pass
        sys.settrace(tracer)
        sys.setprofile(profiler)

    def renamed(code):
        constants = (renamed(c) if isinstance(c, type(code)) else c for c in code.co_consts)
        return code.replace(co_filename=name, co_consts=tuple(constants))

    def excepthook(kind, value, trace):
        import traceback

        while trace is not None and trace.tb_frame.f_code.co_filename in hidden:
            trace = trace.tb_next
        if trace is None and getattr(value, "filename", None) == "<string>":
            # A syntax error in the script.
            value.filename = name
        traceback.print_exception(kind, value, trace)
        if value is final:
            # Send the members after the traceback, because finding the members takes some time.
            send_members(value)
        if kind is KeyboardInterrupt:
            # This exec() sets the interpreter's flag for an unhandled KeyboardInterrupt, so that the interpreter ends
            # itself by SIGINT. A later exec() of a text would clear the flag.
            try:
                exec("raise KeyboardInterrupt")
            except KeyboardInterrupt:
                pass

    def seed_linecache(module):
        lines = source.splitlines(True)
        # linecache also adds a line feed to the last line of a file. Without it, carets are in the wrong column.
        if lines and not lines[-1].endswith("\n"):
            lines[-1] += "\n"
        module.cache[name] = (len(source), None, lines, name)

    def seed_threading(module):
        # Before Python 3.13, the default hook cannot show the lines of a script that is not in a file.
        def thread_excepthook(args):
            if args.exc_type is not SystemExit:
                thread = module.get_ident() if args.thread is None else args.thread.name
                print(f"Exception in thread {thread}:", file=sys.stderr, flush=True)
                excepthook(args.exc_type, args.exc_value, args.exc_traceback)

        module.excepthook = module.__excepthook__ = thread_excepthook

    class Seeds:
        # An import hook that changes modules when they are imported. It avoids the import of linecache, which takes as
        # long as starting Python, and which few scripts need.
        waiting = {"linecache": seed_linecache, "threading": seed_threading}

        @classmethod
        def find_spec(cls, fullname, path=None, target=None):
            seed = cls.waiting.pop(fullname, None)
            if seed is None:
                return None
            if not cls.waiting:
                sys.meta_path.remove(cls)
            for finder in sys.meta_path:
                spec = None if finder is cls else finder.find_spec(fullname, path, target)
                if spec is not None:
                    execute = spec.loader.exec_module

                    def exec_module(module):
                        execute(module)
                        seed(module)

                    spec.loader.exec_module = exec_module
                    return spec
            return None

    def begin():
        pass

    observed = forked = None
    counted, record_end, rehearse = check_counters(channel)
    if pictures is not None:
        seeds, begin = picture_seeds(pictures)
        Seeds.waiting.update(seeds)
    if seed is not None:
        seeds, observed, forked = fixed_seeds(seed)
        Seeds.waiting.update(seeds)
    for module in list(Seeds.waiting):
        # A .pth file may have imported the module already.
        if module in sys.modules:
            Seeds.waiting.pop(module)(sys.modules[module])
    if Seeds.waiting:
        sys.meta_path.insert(0, Seeds)
    sys.excepthook = sys.__excepthook__ = excepthook
    return code_of, reached_end, ended_by, rehearse, forked

