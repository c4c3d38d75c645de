# rule: network/asyncio
# effect: connects
import asyncio
try:
    asyncio.run(asyncio.open_connection("127.0.0.1", 1))
except OSError:
    print("connects")
