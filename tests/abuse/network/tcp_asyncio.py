# attack: connect to a local TCP service with asyncio's own non-blocking code
# t3: EPERM
# t2: EPERM
# control: harm
import asyncio


async def attack():
    _, writer = await asyncio.open_connection("127.0.0.1", int("@TCP_PORT@"))
    writer.close()


attempt(lambda: asyncio.run(attack()))
