# rule: network/asyncio
# effect: connects
import asyncio
loop = asyncio.new_event_loop()
if loop.run_until_complete(loop.getaddrinfo("localhost", 80)):
    print("connects")
