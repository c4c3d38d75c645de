# rule: network/asyncio
# effect: connects
from asyncio import streams, run
try:
    run(streams.open_connection("127.0.0.1", 1))
except OSError:
    print("connects")
