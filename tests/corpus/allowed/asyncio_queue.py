# rule: none
# checks a producer and consumer pipeline with asyncio primitives
import asyncio
from collections.abc import AsyncIterator

async def numbers(n: int) -> AsyncIterator[int]:
    for i in range(n):
        await asyncio.sleep(0)
        yield i

async def producer(q: asyncio.Queue, n: int) -> None:
    async for i in numbers(n):
        await q.put(i)
    await q.put(None)

async def consumer(q: asyncio.Queue, out: list) -> None:
    while (item := await q.get()) is not None:
        out.append(item * item)
        q.task_done()

class Timer:
    async def __aenter__(self):
        self.t0 = asyncio.get_running_loop().time()
        return self

    async def __aexit__(self, *exc):
        self.elapsed = asyncio.get_running_loop().time() - self.t0

async def main():
    q, out = asyncio.Queue(maxsize=3), []
    async with Timer() as t, asyncio.TaskGroup() as tg:
        tg.create_task(producer(q, 20))
        tg.create_task(consumer(q, out))
    assert out == [i * i for i in range(20)]
    lock, counter = asyncio.Lock(), 0

    async def bump():
        nonlocal counter
        async with lock:
            value = counter
            await asyncio.sleep(0)
            counter = value + 1
    await asyncio.gather(*[bump() for _ in range(50)])
    assert counter == 50
    print("sum", sum(out), f"elapsed {t.elapsed:.4f}")

asyncio.run(main())
