"""Creates the parts of a machine from Debian's packages: kernels with their modules, and root file systems.

Each part is created once in target/systems, and again if its description changes. The mirror comes from this
machine's apt. Nothing is installed on this machine itself.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import subprocess
from dataclasses import asdict, dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
WORK = ROOT / "target/systems"
KEYS = Path("/usr/share/keyrings/debian-archive-keyring.gpg")
#: The package with the shell of the initial RAM file system.
SHELL = "busybox-static"
#: The modules of the virtual disk and its file system. Some kernels have some of them built in.
MODULES = ("virtio_pci", "virtio_blk", "crc32c_generic", "crc32c_cryptoapi", "ext4")


@dataclass(frozen=True)
class Kernel:
    """The newest kernel of a Debian suite, in the variant for virtual machines."""

    suite: str
    package: str = "linux-image-cloud-amd64"


@dataclass(frozen=True)
class Root:
    """A root file system of a Debian suite."""

    suite: str
    packages: tuple[str, ...] = ()
    #: Shell commands that run in the root file system after the packages are installed.
    prepare: str = ""
    #: Whether to skip the packages' scripts, which is faster. Only systems with services and users need them.
    unpacked: bool = False
    #: Whether the C library is older than on the machine that builds the server. Then the server gets a newer one.
    older_libc: bool = False
    #: The free space of the image, in MiB.
    free_mib: int = 400


class Missing(Exception):
    """The Debian archive lacks a part."""


def run(*command: object, **options) -> subprocess.CompletedProcess:
    return subprocess.run([str(part) for part in command], check=True, **options)


def mirror() -> str:
    """Returns the mirror of this machine's apt, or debootstrap's default."""
    listed = run(
        "apt-get", "indextargets", "--format", "$(LABEL) $(REPO_URI)", "Created-By: Packages",
        stdout=subprocess.PIPE, text=True,
    ).stdout  # fmt: skip
    found = re.search(r"^Debian (\S+)$", listed, re.M)
    if found is None:
        script = Path("/usr/share/debootstrap/scripts/sid").read_text()
        found = re.search(r"^\s*default_mirror (\S+)$", script, re.M)
    if found is None:
        raise Missing("no mirror of Debian's packages is known")
    return found[1]


def is_made(folder: Path, description: object) -> bool:
    """Returns whether a part was created from this description. Otherwise deletes the old part."""
    stamp = folder / "stamp"
    if stamp.exists() and stamp.read_text() == digest(description):
        return True
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    return False


def digest(description: object) -> str:
    return hashlib.sha256(json.dumps(asdict(description), sort_keys=True).encode()).hexdigest()


def apt(suite: str, *arguments: str, **options) -> subprocess.CompletedProcess:
    """Runs an apt command with the index of one suite. Does not use the state of this machine's apt."""
    folder = WORK / "apt" / suite
    settings = {
        "Dir::Etc::sourcelist": folder / "sources.list", "Dir::Etc::sourceparts": "/dev/null",
        "Dir::Etc::preferencesparts": "/dev/null", "Dir::State": folder / "state", "Dir::State::status": folder / "status",
        "Dir::Cache": folder / "cache", "APT::Architecture": "amd64", "APT::Architectures": "amd64",
        "Acquire::Languages": "none", "APT::Sandbox::User": "root",
    }  # fmt: skip
    if not (folder / "ready").exists():
        shutil.rmtree(folder, ignore_errors=True)
        for name in ("state/lists/partial", "cache/archives/partial"):
            (folder / name).mkdir(parents=True)
        (folder / "status").touch()
        (folder / "sources.list").write_text(f"deb [arch=amd64 signed-by={KEYS}] {mirror()} {suite} main\n")
        given = [f"--option={name}={value}" for name, value in settings.items()]
        run("apt-get", *given, "--quiet", "update", stdout=subprocess.DEVNULL)
        (folder / "ready").touch()
    given = [f"--option={name}={value}" for name, value in settings.items()]
    return run(arguments[0], *given, *arguments[1:], **options)


def kernel_packages(kernel: Kernel) -> list[str]:
    """Returns the names of the packages with the kernel and its modules."""
    names, waiting = [], [kernel.package]
    while waiting:
        name = waiting.pop()
        if name in names:
            continue
        names.append(name)
        try:
            shown = apt(kernel.suite, "apt-cache", "show", "--no-all-versions", name, stdout=subprocess.PIPE, text=True).stdout
        except subprocess.CalledProcessError as error:
            raise Missing(f"{kernel.suite} has no package {name}") from error
        depends = re.search(r"^Depends: (.*)$", shown, re.M)
        waiting += re.findall(r"linux-(?:image|binary|modules)-[^ ,|]+", depends[1]) if depends else []
    return names


@dataclass(frozen=True)
class MadeKernel:
    """The files of a kernel: its image, the folder of its modules, and a shell for the first process."""

    image: Path
    modules: Path
    shell: Path


def make_kernel(name: str, kernel: Kernel) -> MadeKernel:
    folder = WORK / "kernels" / name
    if not is_made(folder, kernel):
        apt(kernel.suite, "apt-get", "--quiet", "download", *kernel_packages(kernel), SHELL, cwd=folder, stdout=subprocess.DEVNULL)
        for package in folder.glob("*.deb"):
            run("dpkg-deb", "--extract", package, folder)
            package.unlink()
        modules = next(folder.glob("**/lib/modules/*"))
        # depmod searches for modules in lib/modules.
        if not (folder / "lib").exists():
            (folder / "lib").symlink_to("usr/lib")
        run("depmod", "--basedir", folder, modules.name, stderr=subprocess.DEVNULL)
        (folder / "stamp").write_text(digest(kernel))
    modules = next(folder.glob("lib/modules/*"))
    # In newer packages, the kernel is next to its modules.
    image = next(iter([*folder.glob("boot/vmlinuz-*"), *modules.glob("vmlinuz")]))
    return MadeKernel(image, modules, next(folder.glob("**/bin/busybox")))


def modules_in_order(folder: Path, names: tuple[str, ...]) -> list[Path]:
    """Returns the files of these modules, each after its dependencies. Omits modules that are built in."""
    needed = dict(line.split(":") for line in (folder / "modules.dep").read_text().splitlines())
    paths = {re.sub(r"\.ko.*", "", Path(path).name).replace("-", "_"): path for path in needed}
    order: list[str] = []
    for name in (name for name in names if name in paths):
        # modules.dep lists the dependencies in reverse order.
        order += [path for path in [*reversed(needed[paths[name]].split()), paths[name]] if path not in order]
    return [folder / path for path in order]


def make_root(name: str, root: Root) -> Path:
    """Returns the path of the image of the root file system."""
    folder = WORK / "roots" / name
    if not is_made(folder, root):
        tree = folder / "tree"
        (unpack if root.unpacked else install)(root, tree)
        add_users(tree)
        if root.prepare:
            run("chroot", tree, "/bin/sh", "-euc", root.prepare, stdin=subprocess.DEVNULL)
        make_image(tree, folder / "disk.img", root.free_mib)
        shutil.rmtree(tree)
        (folder / "stamp").write_text(digest(root))
    return folder / "disk.img"


def install(root: Root, tree: Path) -> None:
    """Installs the packages with debootstrap, in namespaces, so that no mount and no process is left."""
    listed = [f"--include={','.join(root.packages)}"] if root.packages else []
    log = tree.parent / "debootstrap.log"
    with log.open("w") as file:
        done = subprocess.run(
            [
                "unshare", "--mount", "--pid", "--fork", "--kill-child",
                "debootstrap", "--variant=minbase", *listed, root.suite, tree, mirror(),
            ],
            stdin=subprocess.DEVNULL, stdout=file, stderr=subprocess.STDOUT,
        )  # fmt: skip
    if done.returncode != 0:
        raise Missing(f"debootstrap of {root.suite} failed: {log.read_text()[-300:].strip()}")
    shutil.rmtree(tree / "var/cache/apt/archives", ignore_errors=True)


def unpack(root: Root, tree: Path) -> None:
    """Unpacks the packages without running their scripts."""
    for name in ("bin", "sbin", "lib", "lib64"):
        (tree / f"usr/{name}").mkdir(parents=True)
        (tree / name).symlink_to(f"usr/{name}")
    store = tree.parent / "store"
    listed = ",".join(root.packages)
    run(
        "debootstrap", "--variant=minbase", f"--include={listed}", "--download-only", root.suite, store, mirror(),
        stdout=subprocess.DEVNULL,
    )  # fmt: skip
    for package in sorted(store.glob("var/cache/apt/archives/*.deb")):
        with subprocess.Popen(["dpkg-deb", "--fsys-tarfile", package], stdout=subprocess.PIPE) as archive:
            run("tar", "--extract", "--keep-directory-symlink", "--directory", tree, stdin=archive.stdout)
    shutil.rmtree(store)
    for name in ("passwd", "group"):
        shutil.copy(tree / f"usr/share/base-passwd/{name}.master", tree / f"etc/{name}")
    (tree / "etc/shadow").write_text("root:*:1:0:99999:7:::\n")
    run("chroot", tree, "/sbin/ldconfig")


def add_users(tree: Path) -> None:
    """Adds the ordinary user, with a range of UIDs for containers if required."""
    with (tree / "etc/passwd").open("a") as file:
        file.write("ada:x:1000:1000:Ada:/home/ada:/bin/bash\n")
    with (tree / "etc/group").open("a") as file:
        file.write("ada:x:1000:\n")
    with (tree / "etc/shadow").open("a") as file:
        file.write("ada:*:1:0:99999:7:::\n")
    for name in ("subuid", "subgid"):
        (tree / f"etc/{name}").write_text("ada:100000:65536\n")
    (tree / "etc/hosts").write_text("127.0.0.1 localhost\n")
    home = tree / "home/ada"
    home.mkdir(mode=0o700)
    os.chown(home, 1000, 1000)
    # Compiles the standard library, because scripts cannot write its byte code.
    run(
        "chroot", tree, "/bin/sh", "-c",
        "python3 -m compileall -q -x 'idlelib|tkinter|test|ensurepip' /usr/lib/python3* >/dev/null 2>&1 || true",
    )  # fmt: skip


def make_image(tree: Path, image: Path, free_mib: int) -> None:
    used = run("du", "--summarize", "--block-size=M", tree, stdout=subprocess.PIPE, text=True).stdout
    size = int(used.split("M")[0]) * 5 // 4 + free_mib
    # Enables only features that Linux 5.10 supports, whatever the defaults of this machine are.
    features = "none,has_journal,ext_attr,dir_index,filetype,extent,flex_bg,sparse_super,large_file"
    run("mke2fs", "-q", "-t", "ext4", "-O", features, "-I", "256", "-m", "0", "-d", tree, image, f"{size}M", stdout=subprocess.DEVNULL)
