"""Attempts to escape from a governed run. Each test passes if its attack works, as it does without a sandbox.

The integration tests write `targets.json` next to this file, which names the targets.
"""

import ctypes
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
TARGETS = json.loads((HERE / "targets.json").read_text())
ARTIFACTS = Path(os.environ.get("QWED_ARTIFACTS", TARGETS["artifacts"]))


# Reading outside of the project.


def test_read_store():
    assert b"SQLite" in Path(TARGETS["store"]).read_bytes()[:16]


def test_read_store_by_sqlite():
    import sqlite3

    connection = sqlite3.connect(f"file:{TARGETS['store']}?mode=ro", uri=True)
    assert connection.execute("SELECT count(*) FROM tokens").fetchone()[0] > 0


def test_read_token_file():
    assert Path(TARGETS["token_file"]).read_text().startswith("qwedmcp_")


def test_read_token_of_server():
    assert b"qwedmcp_" in Path(f"/proc/{TARGETS['server_pid']}/environ").read_bytes()


def test_read_token_of_parent():
    assert Path(f"/proc/{os.getppid()}/environ").read_bytes()


def test_read_policy():
    assert "allowlist" in Path(TARGETS["policy"]).read_text()


def test_read_other_run():
    assert Path(TARGETS["other_run"]).read_text() == "of another run"


def test_list_data_folder():
    assert os.listdir(TARGETS["data_folder"])


def test_read_passwd():
    assert "root" in Path("/etc/passwd").read_text()


def test_read_outside():
    assert Path(TARGETS["outside"]).read_text() == "outside"


def test_list_beside_workspace():
    assert Path(TARGETS["outside"]).name in os.listdir(HERE.parent)


def test_read_by_link_in_workspace():
    assert (HERE / "link_to_outside").read_text() == "outside"


def test_read_by_dotdot():
    assert (HERE / ".." / Path(TARGETS["outside"]).name).read_text() == "outside"


def test_read_by_descriptor_of_folder():
    folder = os.open(HERE, os.O_PATH)
    file = os.open(f"../{Path(TARGETS['outside']).name}", os.O_RDONLY, dir_fd=folder)
    assert os.read(file, 7) == b"outside"


def test_read_by_hard_link():
    link = ARTIFACTS / "hard_link"
    os.link(TARGETS["outside"], link)
    assert link.read_text() == "outside"


def test_read_in_new_interpreter():
    program = f"print(open({TARGETS['outside']!r}).read(), end='')"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.stdout == "outside", done.stderr


def test_read_token_in_memory_of_server():
    assert open(f"/proc/{TARGETS['server_pid']}/mem", "rb")


# Writing to read-only places.


def test_write_workspace():
    (HERE / "written").write_text("x")
    (HERE / "written").unlink()


def test_change_test_in_workspace():
    with open(HERE / "victim.txt", "a") as victim:
        victim.write("")


def test_chmod_in_workspace():
    os.chmod(HERE / "victim.txt", 0o640)


def test_rename_in_workspace():
    os.rename(HERE / "victim.txt", HERE / "victim.moved")
    os.rename(HERE / "victim.moved", HERE / "victim.txt")


def test_write_outside():
    Path(TARGETS["outside"]).with_name("written").write_text("x")


def test_write_store():
    with open(TARGETS["store"], "r+b") as store:
        store.read(1)


def test_write_store_in_new_interpreter():
    program = f"open({TARGETS['store']!r}, 'r+b')"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_write_evidence():
    (ARTIFACTS.parent / "evidence.json").write_text("{}")


def test_link_in_artifacts():
    os.symlink("/etc/passwd", ARTIFACTS / "symbolic_link")


def test_pipe_in_artifacts():
    os.mkfifo(ARTIFACTS / "pipe")


def test_socket_in_artifacts():
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(ARTIFACTS / "socket"))


# The network.


def connect(family, address):
    with socket.socket(family, socket.SOCK_STREAM) as client:
        client.settimeout(2)
        client.connect(address)


def test_connect_tcp():
    connect(socket.AF_INET, ("127.0.0.1", TARGETS["tcp_port"]))


def test_connect_unix():
    connect(socket.AF_UNIX, TARGETS["unix_socket"])


def test_connect_abstract():
    connect(socket.AF_UNIX, "\0" + TARGETS["abstract_socket"])


def test_send_udp():
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender:
        sender.sendto(b"x", ("127.0.0.1", TARGETS["tcp_port"]))


def test_listen_tcp():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()


# Programs and processes.


def test_start_shell():
    assert subprocess.run(["/bin/sh", "-c", "echo x"], capture_output=True).stdout == b"x\n"


def test_start_shell_by_system():
    assert os.system("true") == 0


def test_start_program_from_artifacts():
    program = ARTIFACTS / "program"
    shutil.copy(os.path.realpath(sys.executable), program)
    os.chmod(program, 0o755)
    done = subprocess.run([str(program), "-c", "pass"], env={"PYTHONHOME": sys.base_prefix})
    assert done.returncode == 0


def test_start_program_from_memory():
    memory = os.memfd_create("program", 0)
    with open(os.path.realpath(sys.executable), "rb") as program:
        os.sendfile(memory, program.fileno(), 0, 1 << 30)
    child = os.fork()
    if child == 0:
        try:
            os.execve(memory, ["python", "-c", "pass"], {"PYTHONHOME": sys.base_prefix})
        finally:
            os._exit(99)
    assert os.waitpid(child, 0)[1] == 0


def test_signal_server():
    os.kill(TARGETS["server_pid"], 0)


def test_trace_victim():
    libc = ctypes.CDLL(None, use_errno=True)
    attach, detach = 16, 17
    assert libc.ptrace(attach, TARGETS["victim_pid"], 0, 0) == 0, os.strerror(ctypes.get_errno())
    os.waitpid(TARGETS["victim_pid"], 0x40000000)
    libc.ptrace(detach, TARGETS["victim_pid"], 0, 0)


def test_new_user_namespace():
    child = os.fork()
    if child == 0:
        libc = ctypes.CDLL(None, use_errno=True)
        os._exit(0 if libc.unshare(0x10000000) == 0 else ctypes.get_errno())
    assert os.waitpid(child, 0)[1] == 0, "Operation not permitted"


# Outliving the run. These tests always pass: the integration tests check that no beat follows. A process that outlives
# the run appends beats to a file, which never shrinks.


def beat_for_ever(name):
    deadline = time.monotonic() + 20
    with open(ARTIFACTS / name, "a", buffering=1) as beats:
        while time.monotonic() < deadline:
            print(time.time(), file=beats)
            time.sleep(0.05)


def wait_for_beat(name):
    """Waits for the first beat, because a run that ends earlier would show nothing."""
    beats = ARTIFACTS / name
    deadline = time.monotonic() + 60
    while not (beats.exists() and beats.stat().st_size):
        assert time.monotonic() < deadline, f"no {name}"
        time.sleep(0.01)


def test_outlive_by_fork():
    if os.fork() == 0:
        try:
            os.setsid()
            if os.fork() == 0:
                signal.signal(signal.SIGTERM, signal.SIG_IGN)
                signal.signal(signal.SIGHUP, signal.SIG_IGN)
                beat_for_ever("beat_fork")
        finally:
            os._exit(0)
    os.wait()
    wait_for_beat("beat_fork")


def test_outlive_by_popen():
    program = (
        "import sys, time\n"
        "deadline = time.monotonic() + 20\n"
        "with open(sys.argv[1], 'a', buffering=1) as beats:\n"
        "    while time.monotonic() < deadline:\n"
        "        print(time.time(), file=beats)\n"
        "        time.sleep(0.05)\n"
    )
    null = subprocess.DEVNULL
    beat = str(ARTIFACTS / "beat_popen")
    subprocess.Popen([sys.executable, "-c", program, beat], stdin=null, stdout=null, stderr=null, start_new_session=True)
    wait_for_beat("beat_popen")


def test_outlive_by_thread():
    import threading

    threading.Thread(target=beat_for_ever, args=["beat_thread"], daemon=True).start()
    wait_for_beat("beat_thread")
