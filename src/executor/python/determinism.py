def set_numpy_state(module, bits):
    # Sets the whole state of the Mersenne twister of `numpy.random` from 2496 bytes, because seed() takes a millisecond.
    key = memoryview(bits).cast("I")
    module.set_state({"bit_generator": "MT19937", "state": {"key": key, "pos": 624}})


def fixed_seeds(seed):
    # Makes two runs of a script the same, as far as Python can: random numbers, unless the script sets a seed, the
    # order of entries in folders, and the turns of threads. Returns a function for each module, to be called after
    # the module was imported, and a function that describes the run when it has ended. Clocks and random bits of
    # the machine, such as `os.urandom`, are fixed by a library on Linux, and not here. Also returns two functions for
    # a process that is forked before the seed is known: one to be called before the fork, and one that begins again
    # with the seed.
    import os, sys, time

    # The script may replace the functions.
    read_clock, modules = time.clock_gettime_ns, sys.modules
    start = int.from_bytes(seed, "big")
    given = 0

    # A thread that computes for less than this time, in seconds, is not interrupted.
    sys.setswitchinterval(1)

    listdir, scandir = os.listdir, os.scandir

    class Entries:
        def __init__(self, path="."):
            with scandir(path) as entries:
                self.left = iter(sorted(entries, key=lambda entry: entry.name))

        def __iter__(self):
            return self

        def __next__(self):
            return next(self.left)

        def __enter__(self):
            return self

        def __exit__(self, *error):
            self.close()

        def close(self):
            self.left = iter(())

    class Listdir:
        # An object, because a class may have the function as an attribute, and then it must not become a method.
        def __call__(self, path="."):
            return sorted(listdir(path))

    os.listdir, os.scandir = Listdir(), Entries
    for functions in (os.supports_fd, os.supports_dir_fd, os.supports_follow_symlinks):
        for old, new in ((listdir, os.listdir), (scandir, os.scandir)):
            if old in functions:
                functions.remove(old)
                functions.add(new)

    def next_seed():
        # Different generators get different seeds.
        nonlocal given
        given += 1
        return start + given

    def seed_random(module):
        seed_with = module.Random.seed

        def seed(self, a=None, version=2):
            seed_with(self, next_seed() if a is None else a, version)

        module.Random.seed = seed
        # The functions of the module belong to one generator.
        module.seed = module._inst.seed
        module.seed()

    def seed_numpy(module):
        import random

        bits = random.Random(next_seed()).getrandbits
        # The source of seeds for generators that are created without a seed.
        module.bit_generator.randbits = bits
        set_numpy_state(module, bits(32 * 624).to_bytes(4 * 624, "little"))

    def seed_timeit(module):
        # It repeats a statement until 0.2 s have passed, which a clock that only counts its readings never shows.
        def autorange(self, callback=None):
            taken = self.timeit(1)
            if callback:
                callback(1, taken)
            return 1, taken

        module.Timer.autorange = autorange

    # The library answers this number with how many threads and processes the script has started.
    observed_clock = 29047
    own = os.path.dirname(os.__file__) + "/lib-dynload/"

    # The newest module that was loaded before the process was forked, and the packages of the modules up to it.
    newest, native_before = None, frozenset()

    def observed():
        # Returns, as text, the answer of the library, or "-" if the library is not loaded, and the names of the
        # installed packages of which native code is loaded.
        try:
            answer = str(read_clock(observed_clock))
        except OSError:
            answer = "-"
        return " ".join([answer, *sorted(native_before | native_code())])

    def native_code():
        # Only looks at the modules that are newer than `newest`, because a look at a module copies its page in a
        # forked process.
        names, native = [], set()
        for name in reversed(modules):
            if name is newest:
                break
            names.append(name)
        # A look at a module may load another one.
        for name in names:
            file = getattr(modules.get(name), "__file__", None)
            if file and file.endswith(".so") and own not in file:
                # Some modules of a package have names outside of the package.
                folder = max((path for path in sys.path if file.startswith(path + "/")), key=len, default="")
                native.add(file[len(folder) + 1 :].partition("/")[0].partition(".")[0])
        return native

    def before_fork():
        nonlocal newest, native_before
        native_before = frozenset(native_code())
        newest = next(reversed(modules))

    def begin_again(seed, generators):
        # `generators` are those that the loaded modules have created.
        nonlocal start, given
        start, given = int.from_bytes(seed, "big"), 0
        if "random" in modules:
            modules["random"].seed()
        if "numpy.random" in modules:
            seed_numpy(modules["numpy.random"])
        for generator in generators:
            generator.seed()

    seeds = {"random": seed_random, "numpy.random": seed_numpy, "timeit": seed_timeit}
    return seeds, observed, (before_fork, begin_again)
