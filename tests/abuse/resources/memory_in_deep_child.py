# attack: fill memory in the last of a chain of processes
# t3: memory limit
# t2: EPERM
# control: harm
import time


def attack():
    reader, writer = os.pipe()
    for _ in range(50):
        if os.fork():
            os.wait()
            os._exit(0) if os.getpid() != first else None
            break
    else:
        parts = [b"x" * (16 << 20) for _ in range(87)]
        time.sleep(1)
        os.write(writer, b"x" * (len(parts) == 87))
        os._exit(0)
    os.close(writer)
    if os.read(reader, 1) != b"x":
        raise Denied("it died")


first = os.getpid()
attempt(attack)
