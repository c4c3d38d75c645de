# rule: process/asyncio
# effect: writes
import asyncio
async def main():
    p = await asyncio.create_subprocess_shell(": > canary")
    await p.wait()

asyncio.run(main())
