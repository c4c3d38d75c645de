# rule: process/subprocess
# effect: writes
import asyncio
asyncio.base_subprocess.subprocess.run([": > canary"], shell=True)
