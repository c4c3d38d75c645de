def await_script(stream):
    # An interpreter that is started ahead of its script: it loads modules, says that it is ready, and waits
    # for the one script that it runs. It is in the sandbox, and has the rights of a script and no more.
    #
    # Nothing is forked: random generators have seeds that no other interpreter has.
    import ctypes, gc, json, os, resource, struct, sys, time

    options = json.loads(stream.readline())
    stream.close()
    # Standard input will be the script's.
    channel = os.dup(0)

    kept = load(options["modules"])
    # The first use of compile() makes the classes of all nodes.
    compile("0", "<string>", "exec")
    code_of = bootstrap(compile, 20 if options["takes_pictures"] else None)
    # What modules print when they are loaded is none of the script's output: whoever reads it takes away what
    # is there before the next line is said. Standard output was flushed when the bootstrap changed its mode.
    sys.stderr.flush()
    ctypes.CDLL(None).fflush(None)
    gc.collect()
    gc.freeze()
    os.write(channel, b"ready\n")

    cpu_seconds, *lengths = struct.unpack("<QQQ", read_whole(channel, 24))
    source, stdin = [read_whole(channel, length) for length in lengths]
    os.close(channel)
    # The script gets all of its processor time, and what the loading took is none of it.
    hard = resource.getrlimit(resource.RLIMIT_CPU)[1]
    most = int(time.process_time()) + 1 + cpu_seconds
    if hard != resource.RLIM_INFINITY:
        most = min(most, hard)
    resource.setrlimit(resource.RLIMIT_CPU, (most, most))
    if stdin:
        give_stdin(stdin)
    return code_of, source, kept


code_of, source, kept = await_script(main.pop("script"))
exec(code_of(source), globals().pop("main"))
