# attack: fill memory in a detached process
# t3: memory limit
# t2: EPERM
# control: harm
import time


def attack():
    reader, writer = os.pipe()
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            parts = [b"x" * (16 << 20) for _ in range(87)]
            time.sleep(1)
            os.write(writer, b"x" * (len(parts) == 87))
        os._exit(0)
    os.close(writer)
    os.wait()
    if os.read(reader, 1) != b"x":
        raise Denied("it died")


attempt(attack)
