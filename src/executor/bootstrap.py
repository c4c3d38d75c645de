def bootstrap():
    # Runs the script that stands in standard input as `python script.py` would run a file, named
    # "<verification>": lines in tracebacks, nothing of this function left behind.
    import os, sys

    with open(0, "rb", closefd=False) as script:
        source = script.read().decode("utf-8-sig")
    null = os.open(os.devnull, os.O_RDONLY)
    os.dup2(null, 0)
    os.close(null)

    name = "<verification>"
    sys.argv[:] = [name]
    if sys.path and sys.path[0] == "":
        del sys.path[0]
    # As at a terminal: what was printed is there if the time is up.
    sys.stdout.reconfigure(line_buffering=True)

    def excepthook(kind, value, trace):
        import traceback

        while trace is not None and trace.tb_frame.f_code.co_filename == "<string>":
            trace = trace.tb_next
        traceback.print_exception(kind, value, trace)

    def seed_linecache(module):
        module.cache[name] = (len(source), None, source.splitlines(True), name)

    def seed_threading(module):
        # Before Python 3.13 the default hook cannot show the lines of a script without a file.
        def thread_excepthook(args):
            if args.exc_type is not SystemExit:
                thread = module.get_ident() if args.thread is None else args.thread.name
                print(f"Exception in thread {thread}:", file=sys.stderr, flush=True)
                excepthook(args.exc_type, args.exc_value, args.exc_traceback)

        module.excepthook = module.__excepthook__ = thread_excepthook

    class Seeds:
        # Importing linecache takes as long as starting Python, and few scripts need it: it gets
        # the script's lines when something imports it.
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

    for module in list(Seeds.waiting):
        # A .pth file may have imported it already.
        if module in sys.modules:
            Seeds.waiting.pop(module)(sys.modules[module])
    sys.meta_path.insert(0, Seeds)
    sys.excepthook = sys.__excepthook__ = excepthook
    return compile(source, name, "exec", dont_inherit=True)


exec(globals().pop("bootstrap")())
