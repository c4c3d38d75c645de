# rule: network/asyncio
# effect: connects
from asyncio import new_event_loop, Protocol
loop = new_event_loop()
try:
    loop.run_until_complete(loop.create_connection(Protocol, "127.0.0.1", 1))
except OSError:
    print("connects")
