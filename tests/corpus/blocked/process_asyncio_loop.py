# rule: process/asyncio
# effect: writes
import asyncio
async def main():
    loop = asyncio.get_running_loop()
    t, _ = await loop.subprocess_exec(asyncio.SubprocessProtocol, "sh", "-c", ": > canary")
    await t._wait()

asyncio.run(main())
