"""Boots a kernel with a root file system in QEMU. Runs a row in this machine, and returns the lines that the row
prints.

The row's files are in the initial RAM file system, so one disk image serves all rows. QEMU discards writes to the
image. The guest prints the kernel's log on its first serial port, and the row's lines on its second.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from roots import MODULES, MadeKernel, modules_in_order, run

MEMORY_MIB = 3072
#: An accelerator is used only if a kernel prints that it has no root file system within this time.
PROOF_WITHIN_S = 15
#: How often the machine may boot if its kernel panics.
BOOTS = 3

#: The program of the first process, in the initial RAM file system.
EARLY = """#!/bin/busybox sh
/bin/busybox mkdir -p /proc /sys /dev /root
/bin/busybox mount -t devtmpfs dev /dev
for module in {modules}; do /bin/busybox insmod $module 2>/dev/null; done
for try in 1 2 3 4 5 6 7 8 9 10; do [ -b /dev/vda ] && break; /bin/busybox sleep 0.2; done
if /bin/busybox mount -t ext4 /dev/vda /root; then
    /bin/busybox mkdir -p /root/row
    /bin/busybox cp -a /row/. /root/row/
    /bin/busybox cp /bin/busybox /root/row/busybox
    /bin/busybox ln -s busybox /root/row/init
    wanted=/root/etc/systemd/system/multi-user.target.wants
    if [ -d ${wanted%/*} ]; then
        /bin/busybox mkdir -p $wanted
        /bin/busybox cp /row/row.service ${wanted%/*}
        /bin/busybox ln -s ../row.service $wanted/row.service
    fi
    exec /bin/busybox switch_root /root {init}
fi
echo "::: no root file system"
/bin/busybox poweroff -f
"""

#: Starts the row without systemd. busybox is the first process and reaps orphans.
PLAIN = """#!/bin/sh
mount -t proc proc /proc
mount -t sysfs sysfs /sys
mount -t devtmpfs dev /dev
mkdir -p /dev/pts /dev/shm
mount -t devpts devpts /dev/pts
mount -t tmpfs -o mode=1777 shm /dev/shm
mount -t tmpfs -o mode=1777 tmp /tmp
mount -t tmpfs -o mode=755 run /run
mount -t securityfs securityfs /sys/kernel/security
mount -t cgroup2 cgroup2 /sys/fs/cgroup
/row/busybox ip link set lo up
hostname systems
mkdir -p /etc
echo "::sysinit:/row/guest" >/etc/inittab
exec /row/init
"""

#: The systemd unit that starts the row when users can log in.
UNIT = """[Unit]
After=systemd-user-sessions.service systemd-logind.service dbus.service
[Service]
ExecStart=/row/guest
"""


@dataclass(frozen=True)
class Machine:
    accelerator: str
    processors: int = 2

    def command(self, kernel: Path, early: Path | None, parameters: str, *more: object) -> list[str]:
        model = "host" if self.accelerator == "kvm" else "max"
        initial = ["-initrd", early] if early else []
        given = [
            "qemu-system-x86_64", "-M", "q35", "-accel", self.accelerator, "-cpu", model, "-smp", self.processors,
            "-m", MEMORY_MIB, "-display", "none", "-no-reboot", "-monitor", "none", "-nic", "none", "-kernel", kernel,
            *initial, "-append", f"console=ttyS0 panic=-1 {parameters}", *more,
        ]  # fmt: skip
        return [str(part) for part in given]


def choose_accelerator(kernel: Path) -> str:
    """Returns `kvm` if a kernel boots with it, otherwise `tcg`. The existence of /dev/kvm is not enough, because
    ordinary kernels do not boot with it on some clouds."""
    if not os.access("/dev/kvm", os.R_OK | os.W_OK):
        return "tcg"
    command = Machine("kvm").command(kernel, None, "", "-serial", "stdio")
    with subprocess.Popen(
        command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, start_new_session=True
    ) as guest:
        os.set_blocking(guest.stdout.fileno(), False)
        said = b""
        deadline = time.monotonic() + PROOF_WITHIN_S
        while time.monotonic() < deadline and b"Kernel panic" not in said and guest.poll() is None:
            said += guest.stdout.read() or b""
            time.sleep(0.1)
        said += guest.stdout.read() or b""
        end(guest)
    return "kvm" if b"Kernel panic" in said else "tcg"


def make_early(folder: Path, row: Path, kernel: MadeKernel, names: Sequence[str], init: str) -> Path:
    """Creates the initial RAM file system with a shell, the modules, and the files of the row."""
    early = folder / "early"
    shutil.rmtree(early, ignore_errors=True)
    (early / "bin").mkdir(parents=True)
    shutil.copy(kernel.shell, early / "bin/busybox")
    loaded = []
    for path in modules_in_order(kernel.modules, (*MODULES, *names)):
        name = path.name.partition(".ko")[0] + ".ko"
        reader = {".xz": ["xz", "-dc"], ".zst": ["zstd", "-dcq"]}.get(path.suffix, ["cat"])
        (early / name).write_bytes(run(*reader, path, stdout=subprocess.PIPE).stdout)
        loaded.append(f"/{name}")
    shutil.copytree(row, early / "row", copy_function=os.link)
    add(early / "row/plain", PLAIN)
    add(early / "row/row.service", UNIT)
    start = "/sbin/init" if init == "systemd" else "/row/plain"
    add(early / "init", EARLY.replace("{modules}", " ".join(loaded)).replace("{init}", start))
    archive = folder / "early.cpio"
    names = "\n".join(str(path.relative_to(early)) for path in sorted(early.rglob("*"))).encode()
    with archive.open("wb") as file:
        run("cpio", "--create", "--quiet", "--format=newc", "--owner=0:0", cwd=early, input=names, stdout=file)
    shutil.rmtree(early)
    return archive


def add(file: Path, text: str) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text)
    file.chmod(0o755)


def boot(command: list[str], folder: Path, disk: Path, seconds: float) -> str:
    """Runs the machine until it powers off. Returns the row's lines. Writes the kernel's log to console.log.

    Boots again if the kernel panicked before the row began. QEMU's emulation sometimes executes the breakpoint with
    which Linux patches its own code (`Oops: int3`).
    """
    lines, log = folder / "lines", folder / "console.log"
    for _ in range(BOOTS):
        lines.unlink(missing_ok=True)
        run_machine(command, folder, disk, seconds)
        seen = lines.read_text(errors="replace") if lines.exists() else ""
        if seen or "Kernel panic" not in log.read_text(errors="replace"):
            break
    return seen


def run_machine(command: list[str], folder: Path, disk: Path, seconds: float) -> None:
    command = [
        *command, "-drive", f"if=none,id=disk,format=raw,snapshot=on,file={disk}", "-device", "virtio-blk-pci,drive=disk",
        "-serial", f"file:{folder / 'console.log'}", "-serial", f"file:{folder / 'lines'}",
    ]  # fmt: skip
    # QEMU stores the discarded writes in an unlinked file in TMPDIR.
    environment = {**os.environ, "TMPDIR": str(folder)}
    with subprocess.Popen(command, stdin=subprocess.DEVNULL, env=environment, start_new_session=True) as guest:
        try:
            guest.wait(seconds)
        except subprocess.TimeoutExpired:
            pass
        finally:
            end(guest)


def end(guest: subprocess.Popen) -> None:
    if guest.poll() is None:
        guest.send_signal(signal.SIGKILL)
    guest.wait()
