def set_numpy_state(module, bits):
    # Sets the state of the Mersenne Twister of `numpy.random` from 2496 bytes. This is faster than seed(), which takes
    # a millisecond.
    key = memoryview(bits).cast("I")
    module.set_state({"bit_generator": "MT19937", "state": {"key": key, "pos": 624}})


def fixed_seeds(seed):
    # Makes runs of a script repeatable. Fixes random numbers (unless the script sets a seed) and the order of entries
    # in folders. Makes switches between threads rare. On Linux, a separate library fixes clocks and `os.urandom`.
    #
    # Returns a dictionary with a function for each module, to call after the import of the module. Also returns a
    # function that describes a run that has ended. Also returns two functions for a process that is forked before the
    # seed is known. Call the first before the fork, and the second with the seed after the fork.
    import os, sys, time

    # Keep references to these functions, because the script may replace them.
    read_clock, modules = time.clock_gettime_ns, sys.modules
    start = int.from_bytes(seed, "big")
    given = 0

    # The interpreter does not interrupt a thread that computes for less than this time, in seconds.
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
        # An object, because a function would become a method if a class has it as an attribute.
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
        # The functions of the module are methods of one generator.
        module.seed = module._inst.seed
        module.seed()

    def seed_numpy(module):
        import random

        bits = random.Random(next_seed()).getrandbits
        # Generators that are created without a seed get their seed from this function.
        module.bit_generator.randbits = bits
        set_numpy_state(module, bits(32 * 624).to_bytes(4 * 624, "little"))

    def seed_timeit(module):
        # The original autorange() repeats a statement until 0.2 s have passed. The fixed clock advances only when it is
        # read, so this time would never pass.
        def autorange(self, callback=None):
            taken = self.timeit(1)
            if callback:
                callback(1, taken)
            return 1, taken

        module.Timer.autorange = autorange

    # For this clock id, the library returns the number of threads and processes that the script has started.
    observed_clock = 29047
    own = os.path.dirname(os.__file__) + "/lib-dynload/"

    # The newest module that was loaded before the fork, and the packages with native code that were loaded by then.
    newest, native_before = None, frozenset()

    def observed():
        # Returns a text: the number of started threads and processes ("-" without the library), and the names of the
        # installed packages whose native code is loaded.
        try:
            answer = str(read_clock(observed_clock))
        except OSError:
            answer = "-"
        return " ".join([answer, *sorted(native_before | native_code())])

    def native_code():
        # Reads only the modules that are newer than `newest`. In a forked process, reading a module copies its memory
        # page.
        names, native = [], set()
        for name in reversed(modules):
            if name is newest:
                break
            names.append(name)
        # Use a copy of the names, because reading a module may import another module.
        for name in names:
            file = getattr(modules.get(name), "__file__", None)
            if file and file.endswith(".so") and own not in file:
                # Use the path instead of the module's name, because some modules of a package have names outside of
                # it.
                folder = max((path for path in sys.path if file.startswith(path + "/")), key=len, default="")
                native.add(file[len(folder) + 1 :].partition("/")[0].partition(".")[0])
        return native

    def before_fork():
        nonlocal newest, native_before
        native_before = frozenset(native_code())
        newest = next(reversed(modules))

    def begin_again(seed, generators):
        # Starts again with `seed`. `generators` are the random generators that the loaded modules have created.
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
