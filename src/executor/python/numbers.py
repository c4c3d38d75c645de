def number_seeds(seed):
    # Makes the random numbers of a script the same in each run, unless the script sets a seed. Returns a
    # function for each module, to be called after the module was imported. Sources of secrets stay random:
    # `secrets`, `os.urandom`, `SystemRandom`.
    start = int.from_bytes(seed, "big")
    given = 0

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
        module.seed([bits(32) for _ in range(8)])

    return {"random": seed_random, "numpy.random": seed_numpy}
