# rule: process/asyncio
# effect: writes
from asyncio import create_subprocess_exec as job, run
async def main():
    await (await job("sh", "-c", ": > canary")).wait()

run(main())
