//! Rules against starting programs and reaching other processes.

use super::{Condition, Rule, Severity, Target};

use Target::{Methods, Modules, Objects};

const SHELL: &str = "runs a shell command";
const IN_PYTHON: &str = "do the work in Python";
const MONITORS: &str = "observes or controls the machine and its processes";

pub(super) const RULES: &[Rule] = &[
    Rule {
        id: "process/os-system",
        severity: Severity::Block,
        targets: &[Objects("os.system"), Target::Patterns("os.system")],
        why: SHELL,
        remedy: IN_PYTHON,
        matches: &[
            "import os\nos.system('id')",
            "import os as x\nx.system('id')",
            "from os import system",
            "from os import system as s",
            "import os\ngetattr(os, 'sys' + 'tem')('id')",
            "import os\nos.__dict__['system']('id')",
            "import os\nvars(os)['system']('id')",
            "import random\nrandom._os.system('id')",
            "import sys\nsys.modules['os'].system('id')",
            "import importlib\nimportlib.import_module('o' + 's').system('id')",
        ],
        misses: &[
            "import os\nos.path.join('a', 'b')",
            "import os\nos.environ.get('X')",
            "class A:\n    def system(self): pass\nA().system()",
            "from mylib import system",
        ],
    },
    Rule {
        id: "process/os-popen",
        severity: Severity::Block,
        targets: &[Objects("os.popen"), Target::Patterns("os.popen")],
        why: SHELL,
        remedy: IN_PYTHON,
        matches: &[
            "import os\nos.popen('id')",
            "from os import popen as op\nop('id')",
            "from os import popen",
        ],
        misses: &["import os\nos.getcwd()", "from os import getcwd"],
    },
    Rule {
        id: "process/os",
        severity: Severity::Block,
        targets: &[
            Objects("os.execl os.execle os.execlp os.execlpe os.execv os.execve os.execvp"),
            Objects("os.execvpe os.fork os.forkpty os.posix_spawn os.posix_spawnp os.spawnl"),
            Objects("os.spawnle os.spawnlp os.spawnlpe os.spawnv os.spawnve os.spawnvp"),
            Objects("os.spawnvpe os.startfile os.wait os.waitpid"),
        ],
        why: "starts other processes",
        remedy: "threads, or compute one after the other",
        matches: &["import os\nos.fork()", "from os import execv", "import os\nos.spawnl(0, 'x')"],
        misses: &["import os\nos.getpid()", "import os\nos.cpu_count()", "road.fork()"],
    },
    Rule {
        id: "process/subprocess",
        severity: Severity::Block,
        targets: &[
            Modules("subprocess _posixsubprocess asyncio.subprocess"),
            Target::Patterns("subprocess"),
        ],
        why: "starts other programs",
        remedy: IN_PYTHON,
        matches: &[
            "import subprocess",
            "import subprocess as sp\nsp.run(['id'])",
            "from subprocess import run",
            "subprocess.run(['id'])",
            "import _posixsubprocess",
        ],
        misses: &[
            "import subprocesses",
            "x = 'subprocess'",
            "class A:\n    def f(self): self.subprocess.run()",
        ],
    },
    Rule {
        id: "process/multiprocessing",
        severity: Severity::Block,
        targets: &[
            // `dummy` and `pool` are permitted because of their thread pools, which start no processes.
            Target::AllBut("multiprocessing", "cpu_count dummy pool"),
            Target::AllBut("multiprocessing.dummy", "Pool"),
            Target::AllBut("multiprocessing.pool", "ThreadPool"),
            Modules("billiard concurrent.futures.process"),
            Objects("concurrent.futures.ProcessPoolExecutor"),
            Methods("set_executable set_forkserver_preload", Condition::Always),
            // `ThreadPool` is a subclass of the process pool. Through these members, a script could reach the process
            // pool.
            Objects(
                "multiprocessing.pool.ThreadPool.__base__ multiprocessing.pool.ThreadPool._ctx",
            ),
            Objects(
                "multiprocessing.pool.ThreadPool.__bases__ multiprocessing.pool.ThreadPool.__mro__",
            ),
            Objects("multiprocessing.pool.ThreadPool.mro multiprocessing.pool.ThreadPool.__dict__"),
        ],
        why: "starts other processes, and exchanges pickles with them",
        remedy: "concurrent.futures.ThreadPoolExecutor",
        matches: &[
            "from multiprocessing import Pool",
            "from concurrent.futures import ProcessPoolExecutor",
            "from multiprocessing.pool import ThreadPool\nThreadPool(1)._ctx.Process(target=f)",
            "from multiprocessing.dummy import Pool\nwith Pool(1) as p: p._ctx.Manager()",
            "from multiprocessing.pool import ThreadPool\nThreadPool.__base__(2)",
            "from multiprocessing.pool import ThreadPool\nvars(ThreadPool(1))['_ctx'].Process(target=f)",
            "from multiprocessing.pool import ThreadPool\nThreadPool(1).__dict__['_ctx'].Manager()",
        ],
        misses: &[
            "from concurrent.futures import ThreadPoolExecutor",
            "multiprocessing = 1",
            "from multiprocessing.pool import ThreadPool\nwith ThreadPool(2) as p: p.map(f, [1])",
        ],
    },
    Rule {
        id: "process/asyncio",
        severity: Severity::Block,
        targets: &[
            Objects("asyncio.create_subprocess_exec asyncio.create_subprocess_shell"),
            Methods("subprocess_exec subprocess_shell create_subprocess_exec", Condition::Always),
            Methods("create_subprocess_shell", Condition::Always),
        ],
        why: "starts other programs",
        remedy: IN_PYTHON,
        matches: &[
            "import asyncio\nasyncio.create_subprocess_shell('id')",
            "from asyncio import create_subprocess_exec",
            "loop.subprocess_exec(f, 'id')",
        ],
        misses: &["import asyncio\nasyncio.create_task(f())", "import asyncio\nasyncio.run(f())"],
    },
    Rule {
        id: "process/launchers",
        severity: Severity::Block,
        targets: &[
            Modules("pty posix nt mailcap pipes popen2 commands pexpect ptyprocess sh plumbum"),
            Modules("invoke fabric webbrowser antigravity idlelib distutils setuptools"),
            Modules("_distutils_hack pip ensurepip venv virtualenv lib2to3 test.support"),
            Modules("_aix_support _osx_support _bootsubprocess pycparser"),
            Modules("sympy.utilities.runtests sympy.testing"),
            Objects("platform.popen uuid._get_command_stdout sympy.test sympy.doctest"),
            Objects("matplotlib.animation.FFMpegWriter matplotlib.animation.FFMpegFileWriter"),
            Objects("matplotlib.animation.ImageMagickWriter matplotlib.animation.HTMLWriter"),
            Objects("matplotlib.animation.ImageMagickFileWriter matplotlib.animation.writers"),
            Methods("to_html5_video", Condition::Imported("matplotlib")),
        ],
        why: "starts other programs",
        remedy: IN_PYTHON,
        matches: &[
            "import pty",
            "from posix import *",
            "import webbrowser",
            "import pip",
            "from matplotlib import animation\nanimation.FFMpegWriter()",
        ],
        misses: &[
            "import platform\nplatform.machine()",
            "import posixpath",
            "sh = 1\nprint(sh)",
            "from matplotlib import animation\nanimation.FuncAnimation(f, g)",
        ],
    },
    Rule {
        id: "process/windows",
        severity: Severity::Block,
        targets: &[
            Modules("turtle tkinter sympy.printing.preview sympy.printing.gtk"),
            Objects("sympy.preview sympy.print_gtk"),
        ],
        why: "opens windows, with other programs or on a display",
        remedy: "print the result: there is no screen",
        matches: &["import turtle", "from tkinter import Tk", "from sympy import preview"],
        misses: &["turtle = 1\nprint(turtle)", "from sympy import pretty, latex"],
    },
    Rule {
        id: "process/monitors",
        severity: Severity::Block,
        targets: &[
            Modules("psutil pyautogui pynput keyboard mouse mss pyscreenshot pyperclip"),
            Modules("PIL.ImageGrab pwd spwd grp GPUtil wmi win32api Xlib"),
        ],
        why: MONITORS,
        remedy: "leave it out: a script sees only its own processes",
        matches: &["import psutil", "from pynput import keyboard", "import pyautogui"],
        misses: &["keyboard = 1\nprint(keyboard)", "import resource", "import platform"],
    },
    Rule {
        id: "process/signals",
        severity: Severity::Block,
        targets: &[Objects(
            "os.kill os.killpg signal.pthread_kill signal.pidfd_send_signal os.pidfd_open",
        )],
        why: "signals other processes",
        remedy: "sys.exit ends the script",
        matches: &["import os\nos.kill(1, 9)", "from signal import pthread_kill"],
        misses: &[
            "import signal\nsignal.signal(signal.SIGALRM, f)",
            "import signal\nsignal.alarm(1)",
            "weeds.kill()",
        ],
    },
];
