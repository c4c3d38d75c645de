"""The rows of the system matrix: a kernel, a root file system, a condition, and the expected tier.

A row never passes by what it prints alone: `tests/systems/run` states what each expectation means.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from roots import Kernel, Root

KERNELS = {
    "5.10": Kernel("bullseye"),
    "6.1": Kernel("bookworm"),
    "6.12": Kernel("trixie"),
    "sid": Kernel("sid"),
}

SYSTEMD = ("systemd", "systemd-sysv", "dbus", "dbus-user-session", "libpam-systemd")
#: Labels every file, because the machine that makes the root may not have SELinux.
LABEL = """
sed -i s/^SELINUX=.*/SELINUX=enforcing/ /etc/selinux/config
setfiles -F /etc/selinux/default/contexts/files/file_contexts /
"""

ROOTS = {
    # The quickest to make.
    "small": Root("trixie", ("python3", "patchelf"), unpacked=True),
    "trixie": Root(
        "trixie", ("python3", "kmod", "procps", "iproute2", *SYSTEMD, "podman", "crun", "uidmap", "fuse-overlayfs", "apparmor")
    ),
    "docker": Root("trixie", ("python3", "docker.io", "docker-cli", "apparmor", "kmod", "procps")),
    "selinux": Root(
        "trixie", ("python3", "kmod", "procps", *SYSTEMD, "selinux-policy-default", "policycoreutils"), prepare=LABEL
    ),
    "bullseye": Root("bullseye", ("python3",), unpacked=True, older_libc=True),
    "bookworm": Root("bookworm", ("python3", "pypy3"), unpacked=True, older_libc=True),
    "sid": Root("sid", ("python3", "python3.15", "pypy3"), unpacked=True),
}


@dataclass(frozen=True)
class Tier:
    """Scripts run at this tier. Below T3, the result and `doctor` have the reason, and `strict` refuses."""

    name: str
    #: A part of the reason, which `doctor` and the result have. Only below T3.
    reason: str = ""
    #: A part of the remedy that `doctor` prints. Only below T3.
    remedy: str = ""


@dataclass(frozen=True)
class Refused:
    """Scripts are refused, and the reply and `doctor` have the reason and the remedy."""

    reason: str
    remedy: str


@dataclass(frozen=True)
class Row:
    name: str
    why: str
    kernel: str
    expected: Tier | Refused
    root: str = "trixie"
    #: `plain`: the row is the only process. `systemd`: it runs after multi-user.target.
    init: str = "plain"
    #: Parameters of the kernel.
    parameters: str = ""
    modules: tuple[str, ...] = ()
    #: Shell commands, as root, that make the condition.
    condition: str = ":"
    #: How the row's processes are started: `as_ada`, `as_root`, or another command.
    enter: str = "as_ada"
    python: str = "/usr/bin/python3"
    #: Shell commands, as root, that apply the printed remedy; another `enter`; or another kernel or parameters.
    apply: str = ""
    apply_enter: str = ""
    apply_kernel: str = ""
    apply_parameters: str | None = None
    #: The expectation after the remedy.
    then: Tier | Refused | None = None
    #: Whether scripts become warm. `None`: not at this tier.
    warm: bool | None = True
    #: Values in `doctor`'s JSON, by their path.
    doctor: dict[str, object] = field(default_factory=dict)
    #: The reason why the row cannot be run. It is reported, and is not a failure.
    unavailable: str = ""
    minutes: float = 4


T3 = Tier("T3")
NO_NAMESPACES = "sysctl -w user.max_user_namespaces=0"
NAMESPACES_REMEDY = "sysctl -w user.max_user_namespaces=1000"
NO_CLONE = "sysctl -w kernel.unprivileged_userns_clone=0"
CLONE_REMEDY = "sysctl -w kernel.unprivileged_userns_clone=1"
#: For a server that is the container's root, as in the rows.
CONTAINER_REMEDY = (
    "--user 1000:1000 --security-opt seccomp=unconfined --security-opt apparmor=unconfined "
    "--security-opt systempaths=unconfined"
)  # fmt: skip
BOX = "--rootfs /srv/box:O"
#: Denies user namespaces to the server, as Ubuntu does to every program without a profile.
APPARMOR_DENIES = """
printf 'abi <abi/4.0>,\\nprofile limited /usr/local/bin/qwed-mcp { allow all, audit deny userns, }\\n' >/run/limited
apparmor_parser --replace /run/limited
"""
#: The command that doctor prints, without sudo.
APPARMOR_REMEDY = """
apparmor_parser --remove /run/limited
qwed-mcp doctor --apparmor-profile | tee /etc/apparmor.d/qwed-mcp && apparmor_parser --replace /etc/apparmor.d/qwed-mcp
grep -q '^qwed-mcp ' /sys/kernel/security/apparmor/profiles
"""
HIDEPID = "mount -o remount,hidepid=2 /proc"
CGROUP_V1 = """
umount /sys/fs/cgroup
mount -t tmpfs cgroup /sys/fs/cgroup
for name in memory pids cpu; do mkdir /sys/fs/cgroup/$name; mount -t cgroup -o $name $name /sys/fs/cgroup/$name; done
"""
SESSION = "loginctl enable-linger ada && systemctl start user@1000.service"
ENTER_SESSION = "as_ada XDG_RUNTIME_DIR=/run/user/1000 systemd-run --user --wait --pipe --quiet"

KERNEL_ROWS = [
    Row("small", "the smallest system", "6.12", T3, root="small"),
    Row(
        "linux-5.10", "a kernel without Landlock", "5.10",
        Refused("Landlock", "with them 5.13"),
        apply_kernel="6.1", then=T3,
    ),
    Row("linux-6.1", "Debian 12's kernel", "6.1", T3),
    Row("linux-6.12", "Debian 13's kernel", "6.12", T3),
    Row("linux-sid", "the newest kernel of Debian", "sid", T3),
    Row("linux-6.12-root", "a server that is root", "6.12", T3, enter="as_root"),
    Row(
        "no-landlock", "Landlock is not in the boot parameter lsm=", "6.12",
        Refused("Landlock", "parameter lsm="),
        parameters="lsm=lockdown,yama,apparmor", apply_parameters="lsm=landlock,lockdown,yama,apparmor", then=T3,
    ),
    Row(
        "no-userns-6.1", "no user namespaces, and a Landlock that is too old for T2", "6.1",
        Refused("Landlock ABI 6 is needed", NAMESPACES_REMEDY),
        condition=NO_NAMESPACES, apply=NAMESPACES_REMEDY, then=T3,
    ),
    Row(
        "no-userns-6.12", "no user namespaces, with T2", "6.12",
        Tier("T2", "namespaces", NAMESPACES_REMEDY),
        condition=NO_NAMESPACES, apply=NAMESPACES_REMEDY, then=T3,
    ),
    Row(
        "no-userns-root", "no user namespaces, and a server that is root", "6.12",
        Tier("T2", "namespace could not be mapped", NAMESPACES_REMEDY),
        condition=NO_NAMESPACES, apply=NAMESPACES_REMEDY, then=T3, enter="as_root",
    ),
    Row(
        "no-clone", "Debian's setting against user namespaces", "6.12",
        Tier("T2", "namespaces", CLONE_REMEDY),
        condition=NO_CLONE, apply=CLONE_REMEDY, then=T3,
    ),
]  # fmt: skip

SYSTEM_ROWS = [
    Row(
        "apparmor", "a profile denies user namespaces", "6.12",
        Tier("T2", "namespace", "--apparmor-profile"),
        condition=APPARMOR_DENIES, apply=APPARMOR_REMEDY, then=T3,
    ),
    Row("yama", "Yama forbids every trace", "6.12", T3, condition="sysctl -w kernel.yama.ptrace_scope=3"),
    Row("hidepid", "/proc hides the processes of other users", "6.12", T3, condition=HIDEPID),
    Row(
        "hidepid-t2", "the same without namespaces", "6.12",
        Tier("T2", "namespaces", NAMESPACES_REMEDY),
        condition=f"{HIDEPID} && {NO_NAMESPACES}", apply=NAMESPACES_REMEDY, then=T3,
    ),
    Row("noexec-tmp", "nothing in /tmp can be executed", "6.12", T3, condition="mount -o remount,noexec,nosuid,nodev /tmp"),
    Row("no-shm", "/dev/shm does not exist", "6.12", T3, condition="umount /dev/shm && rmdir /dev/shm"),
    Row(
        "cgroup-v1", "control groups of version 1", "6.1", T3, condition=CGROUP_V1, enter="as_root",
        doctor={"control_groups.used": False},
    ),
    Row(
        "systemd-session", "a user's session, with delegated control groups", "6.12", T3,
        init="systemd", condition=SESSION, enter=ENTER_SESSION, doctor={"control_groups.used": True},
    ),
    Row("selinux", "SELinux enforces Debian's policy", "6.12", T3, root="selinux", init="systemd",
        parameters="security=selinux selinux=1 enforcing=1", condition="[ $(cat /sys/fs/selinux/enforce) = 1 ]"),
]  # fmt: skip

CONTAINER_ROWS = [
    Row(
        "podman-rootless", "a user's container, with Podman's profiles", "6.12",
        Tier("T2", "namespaces", CONTAINER_REMEDY), modules=("overlay",),
        condition="make_box 1000", enter=f"rootless {BOX}", apply_enter=f"rootless {CONTAINER_REMEDY} {BOX}", then=T3,
    ),
    Row(
        "podman-6.1", "the same, and a Landlock that is too old for T2", "6.1",
        Refused("Landlock ABI 6 is needed", CONTAINER_REMEDY), modules=("overlay",),
        condition="make_box 1000", enter=f"rootless {BOX}", apply_enter=f"rootless {CONTAINER_REMEDY} {BOX}", then=T3,
    ),
    Row(
        "podman-root", "root's container, with Podman's profiles", "6.12",
        Tier("T2", "namespaces", CONTAINER_REMEDY), modules=("overlay",),
        condition="make_box 0", enter=f"rootful {BOX}", apply_enter=f"rootful {CONTAINER_REMEDY} {BOX}", then=T3,
    ),
    Row(
        "podman-privileged", "root's privileged container", "6.12", T3, modules=("overlay",),
        condition="make_box 0", enter=f"rootful --privileged {BOX}",
    ),
    Row(
        "docker", "Docker's default profiles, with T2", "6.12",
        Tier("T2", "namespaces", CONTAINER_REMEDY), modules=("overlay",), root="docker",
        condition="make_box 0 && start_docker", enter="docker_run box",
        apply_enter=f"docker_run {CONTAINER_REMEDY} box", then=T3,
    ),
    Row(
        "docker-6.1", "Docker's default profiles, and a Landlock that is too old for T2", "6.1",
        Refused("Landlock ABI 6 is needed", CONTAINER_REMEDY), modules=("overlay",), root="docker",
        condition="make_box 0 && start_docker", enter="docker_run box",
        apply_enter=f"docker_run {CONTAINER_REMEDY} box", then=T3,
    ),
    Row(
        "docker-privileged", "a privileged container of Docker", "6.12", T3, modules=("overlay",), root="docker",
        condition="make_box 0 && start_docker", enter="docker_run --privileged box",
    ),
]  # fmt: skip

#: Debian's interpreter and libraries in a prefix, as conda installs them: the program finds its libraries relative to
#: itself.
CONDA = """
mkdir -p /opt/conda/bin /opt/conda/lib /opt/conda/conda-meta
touch /opt/conda/conda-meta/history
cp -aL /usr/lib/python3.13 /opt/conda/lib/
for file in $(ldd /usr/bin/python3.13 | sed -n 's/.*=> \\([^ ]*\\/lib\\(z\\|expat\\)[^ ]*\\).*/\\1/p'); do cp -L $file /opt/conda/lib/; done
cp -L /usr/bin/python3.13 /opt/conda/bin/python3.13
patchelf --force-rpath --set-rpath '$ORIGIN/../lib' /opt/conda/bin/python3.13
ln -s python3.13 /opt/conda/bin/python
/opt/conda/bin/python -c 'import sys, zlib; assert sys.prefix == "/opt/conda" and "/opt/conda/lib/libz" in open("/proc/self/maps").read()'
"""

INTERPRETER_ROWS = [
    Row("python-3.9", "Debian 11's interpreter", "6.12", T3, root="bullseye"),
    Row("python-3.11", "Debian 12's interpreter", "6.12", T3, root="bookworm"),
    Row("python-3.14", "the default interpreter of Debian sid", "6.12", T3, root="sid"),
    Row("python-3.15", "the newest interpreter of Debian sid", "6.12", T3, root="sid", python="/usr/bin/python3.15"),
    Row("pypy-3.9", "PyPy of Debian 12", "6.12", T3, root="bookworm", python="/usr/bin/pypy3", warm=False),
    Row("pypy-sid", "PyPy of Debian sid", "6.12", T3, root="sid", python="/usr/bin/pypy3", warm=False),
    Row("conda", "an interpreter in a prefix, with libraries relative to it", "6.12", T3, root="small",
        python="/opt/conda/bin/python", condition=CONDA),
    *(
        Row(f"python-{version}", "an interpreter", "6.12", T3, unavailable=f"no suite of Debian has Python {version}")
        for version in ("3.8", "3.10", "3.12")
    ),
    Row("python-free-threaded", "an interpreter without a global lock", "6.12", T3,
        unavailable="no package of Debian has a free-threaded Python"),
]  # fmt: skip

#: Rows without a system in Debian's archives.
OTHER_ROWS = [
    Row("ubuntu-apparmor", "AppArmor forbids namespaces to programs without a profile", "6.12", T3,
        unavailable="Debian's kernels do not have kernel.apparmor_restrict_unprivileged_userns"),
]  # fmt: skip

ROWS = [*KERNEL_ROWS, *SYSTEM_ROWS, *CONTAINER_ROWS, *INTERPRETER_ROWS, *OTHER_ROWS]
