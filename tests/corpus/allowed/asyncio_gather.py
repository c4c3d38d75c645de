# rule: none
# checks ordering and total time of gathered coroutines
import asyncio
import time

async def worker(name: str, delay: float) -> str:
    await asyncio.sleep(delay)
    return f"{name}:{delay}"

async def main() -> None:
    start = time.perf_counter()
    results = await asyncio.gather(*(worker(n, d) for n, d in [("a", 0.06), ("b", 0.02), ("c", 0.04)]))
    elapsed = time.perf_counter() - start
    print(results, f"{elapsed:.3f}s")
    assert results == ["a:0.06", "b:0.02", "c:0.04"], "order of arguments is kept"
    assert elapsed < 0.12 * 5

    try:
        await asyncio.wait_for(worker("slow", 1), timeout=0.01)
    except asyncio.TimeoutError:
        print("timeout as expected")

    failures = await asyncio.gather(worker("x", 0), broken(), return_exceptions=True)
    assert isinstance(failures[1], RuntimeError)

async def broken():
    raise RuntimeError("boom")

if __name__ == "__main__":
    asyncio.run(main())
