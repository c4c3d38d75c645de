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

ROOTS = {
    # The quickest to make, for the row that continuous integration runs.
    "small": Root("bookworm", ("python3",), unpacked=True),
    "trixie": Root(
        "trixie",
        (
            "python3", "kmod", "procps", "iproute2", "systemd", "systemd-sysv", "dbus", "dbus-user-session", "libpam-systemd",
            "podman", "crun", "uidmap", "fuse-overlayfs", "netavark", "passt", "apparmor", "selinux-policy-default",
            "policycoreutils", "selinux-utils",
        ),
    ),  # fmt: skip
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
    minutes: float = 5


T3 = Tier("T3")
NO_NAMESPACES = "sysctl -w user.max_user_namespaces=0"
NAMESPACES_REMEDY = "sysctl -w user.max_user_namespaces=1000"

ROWS = [
    Row("small", "the row of continuous integration", "6.1", T3, root="small"),
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
        "no-userns-6.1", "no user namespaces, and a Landlock that is too old for T2", "6.1",
        Refused("Landlock ABI 6 is needed", NAMESPACES_REMEDY),
        condition=NO_NAMESPACES, apply=NAMESPACES_REMEDY, then=T3,
    ),
    Row(
        "no-userns-6.12", "no user namespaces, with T2", "6.12",
        Tier("T2", "namespaces", NAMESPACES_REMEDY),
        condition=NO_NAMESPACES, apply=NAMESPACES_REMEDY, then=T3,
    ),
]  # fmt: skip
