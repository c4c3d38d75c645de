# attack: leave a detached process (which is only created here; the harness checks that it has ended)
# t3: made
# t2: exit 1
# control: none, because without a sandbox a process may outlive its run


def survive():
    null = os.open("/dev/null", os.O_RDWR)
    for number in (0, 1, 2):
        os.dup2(null, number)
    try:
        syscall("prctl", 15, b"@OUT_TAG@"[:15], 0, 0, 0)
    except OSError:
        pass
    import time
    time.sleep(8)
    os._exit(0)


if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        survive()
    os._exit(0)
os.wait()
print("RESULT made", flush=True)
