# rule: none
# checks decorators: timing, retry, memo, registration
import functools
import time
from contextlib import ContextDecorator, contextmanager, ExitStack

def retry(times, exceptions=(Exception,)):
    def deco(fn):
        @functools.wraps(fn)
        def wrapper(*args, **kwargs):
            for attempt in range(1, times + 1):
                try:
                    return fn(*args, **kwargs)
                except exceptions:
                    if attempt == times:
                        raise
        return wrapper
    return deco

attempts = []

@retry(3, exceptions=(OSError,))
def flaky(x):
    """Fails twice."""
    attempts.append(x)
    if len(attempts) < 3:
        raise OSError("busy")
    return x * 2

assert flaky(21) == 42 and len(attempts) == 3
assert flaky.__name__ == "flaky" and flaky.__wrapped__ is not flaky and flaky.__doc__ == "Fails twice."

@contextmanager
def timed(out):
    t0 = time.perf_counter()
    yield
    out.append(time.perf_counter() - t0)

times = []
with ExitStack() as stack:
    for _ in range(3):
        stack.enter_context(timed(times))
assert len(times) == 3 and all(t >= 0 for t in times)

@functools.singledispatch
def describe(v):
    return "thing"
describe.register(int)(lambda v: f"int {v}")
@describe.register
def _(v: list):
    return f"list of {len(v)}"
print(describe(1), describe([1, 2]), describe("x"))
power = functools.partial(pow, 2)
assert power(10) == 1024
