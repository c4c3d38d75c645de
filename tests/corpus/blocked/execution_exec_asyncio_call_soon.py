# rule: execution/exec
# effect: writes
import asyncio
async def main():
    asyncio.get_running_loop().call_soon(exec, "open('canary', 'w').close()")
    await asyncio.sleep(0)

asyncio.run(main())
