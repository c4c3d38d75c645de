def number_seeds(seed):
    # Gives a script the same random numbers each time where it sets no seed itself: returns what to do with
    # which module once the script has imported it. What is meant to be a secret stays one: `secrets`,
    # `os.urandom`, `SystemRandom`.
    start = int.from_bytes(seed, "big")
    given = 0

    def next_seed():
        # Two generators are not one.
        nonlocal given
        given += 1
        return start + given

    def seed_random(module):
        seed_with = module.Random.seed

        def seed(self, a=None, version=2):
            seed_with(self, next_seed() if a is None else a, version)

        module.Random.seed = seed
        # The functions of the module are those of one generator.
        module.seed = module._inst.seed
        module.seed()

    def seed_numpy(module):
        import random

        bits = random.Random(next_seed()).getrandbits
        # What a generator takes that is made without a seed.
        module.bit_generator.randbits = bits
        module.seed([bits(32) for _ in range(8)])

    return {"random": seed_random, "numpy.random": seed_numpy}
