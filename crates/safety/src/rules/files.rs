//! Rules against access to files and folders.

use super::{Condition, Rule, Severity, Target};

use Target::{AllBut, Calls, Methods, Modules, Objects};

const IN_SCRIPT: &str =
    "pass the file in `inputs`, or put the data into the script: io.StringIO makes a file of it";
const NO_FOLDERS: &str = "pass files in `inputs`, or put the data into the script";

pub(super) const RULES: &[Rule] = &[
    Rule {
        id: "files/open",
        severity: Severity::Block,
        targets: &[Objects("builtins.open")],
        why: "reads or writes files of the machine",
        remedy: IN_SCRIPT,
        matches: &[
            "open('/etc/passwd')",
            "with open('x') as f: pass",
            "def f():\n    def open(x): pass\nopen('/etc/passwd')",
            "open('x')\ndef open(y): pass",
            "from builtins import open as door",
            "LOCAL = False\nLOCAL = True\nif LOCAL: open('x')",
            "LOCAL = False\ndef f():\n    global LOCAL\n    LOCAL = 1\nf()\nif LOCAL: open('x')",
            "LOCAL = False\nglobals()['LOCAL'] = 1\nif LOCAL: open('x')",
            "LOCAL = False\nfrom unittest.mock import patch\nwith patch('__main__.LOCAL', 1):\n    if LOCAL: open('x')",
            "LOCAL = False\nfrom settings import *\nif LOCAL: open('x')",
            "import sys\nsys.version_info = (2,)\nif sys.version_info[0] < 3: open('x')",
            "import sys\nif sys.version_info < (3, 12): open('x')",
            "class C(metaclass=M):\n    LOCAL = False\n    if LOCAL: open('x')",
            "for LOCAL in (0, 1):\n    if LOCAL: open('x')",
            "if x or False: open('x')\nelse: print(1)",
        ],
        misses: &[
            "account.open()",
            "def open(x): return x\nopen(1)",
            "class open: pass\nopen()",
            "is_open = True",
            "def f(open=lambda x: x): return open(1)",
            "def f():\n    return open(1)\ndef open(x): return x\nf()",
            "LOCAL = False\nif LOCAL: f = open('input.txt')",
            "import sys\nif sys.version_info[0] < 3: open('x')\nelse: print(1)",
            "import sys\nif sys.version_info >= (3, ): print(1)\nelif a: open('x')\nelse: open('y')",
            "while 0: open('x')\nx = open('x') if None else 1\nif x and False: open('x')",
        ],
    },
    Rule {
        id: "files/os",
        severity: Severity::Block,
        // The rules permit saving an image under a plain name, because the scratch folder is the current folder. So
        // changing the current folder is refused.
        targets: &[
            AllBut("os", OS_HARMLESS),
            Objects("contextlib.chdir"),
            Methods("chdir", Condition::Always),
        ],
        why: "os reaches files, processes and the machine",
        remedy: "os.path for names, os.environ.get and os.getcwd are allowed",
        matches: &[
            "import os\nos.remove('x')",
            "import os\nos.open('x', 0)",
            "import os as x\n[*globals().values()][-1].mknod('f')",
            "import os\nos.listdir('/')",
            "from os import *",
            "from os import unlink",
            "import os.path\nos.path.os.rmdir('x')",
            "from contextlib import chdir as go\nwith go('/tmp'): pass",
            "import pytest\npytest.MonkeyPatch().chdir('/tmp')",
        ],
        misses: &[
            "import os\nos.path.join('a', 'b')",
            "import os\nprint(os.sep, os.name, os.environ.get('HOME'))",
            "from os import path, getcwd",
            "import os.path as p\np.basename('a/b')",
            "import os\nprint(hasattr(os, 'fork'))",
            "import os\ndef f(): return os.getpid()",
            "class Shell:\n    def chdir(self, to): self.at = to\nShell().chdir('/tmp')",
        ],
    },
    Rule {
        id: "files/io",
        severity: Severity::Block,
        targets: &[
            AllBut("io", IO_HARMLESS),
            Modules("_io _pyio"),
            Objects("codecs.open tokenize.open sys.stdout.buffer.raw sys.stderr.buffer.raw"),
            Objects("sys.stdin.buffer.raw sys.__stdout__.buffer.raw sys.__stderr__.buffer.raw"),
            Objects("sys.stdout.detach sys.stderr.detach sys.__stdout__.detach io.BytesIO.raw"),
            Objects("io.BytesIO.detach io.BufferedReader.detach io.BufferedReader.raw"),
            Objects("io.BufferedWriter.detach io.BufferedWriter.raw io.BufferedRandom.detach"),
            Objects("io.BufferedRandom.raw io.TextIOWrapper.detach io.TextIOWrapper.buffer"),
            Objects("sys.__stderr__.detach sys.stdout.buffer.detach sys.stderr.buffer.detach"),
        ],
        why: "reads or writes files of the machine",
        remedy: "io.StringIO and io.BytesIO hold data in memory",
        matches: &[
            "import io\nio.open('x')",
            "import io\nio.FileIO('x')",
            "from io import open as o",
            "import codecs\ncodecs.open('x')",
            "import tokenize\ntokenize.open('x')",
            "import sys\ntype(sys.stdout.buffer.raw)('x', 'w')",
            "import tempfile\ntype(tempfile.TemporaryFile().raw)('x', 'w')",
            "import tempfile\ntype(tempfile.TemporaryFile('w').buffer.detach())('x', 'w')",
            "import io, sys\nio.BufferedReader.detach(sys.stdin.buffer)",
            "import sys\nmatch sys.stdin:\n    case object(buffer=b): print(b)",
            "import tempfile\nlist(map(type, [tempfile.TemporaryFile().raw]))[0]('x', 'w')",
            "from unittest import mock\nimport json\nm = mock.Mock(wraps=json).codecs\nm.open('x')",
        ],
        misses: &[
            "import io\nio.StringIO('x')",
            "from io import BytesIO\nBytesIO(b'x').read()",
            "import codecs\ncodecs.encode('a', 'rot13')",
            "import tokenize, io\ntokenize.generate_tokens(io.StringIO('x').readline)",
            "import sys\nsys.stdout.buffer.write(b'x')",
        ],
    },
    Rule {
        id: "files/pathlib",
        severity: Severity::Block,
        targets: &[
            Objects("pathlib.Path.chmod pathlib.Path.copy pathlib.Path.copy_into"),
            Objects("pathlib.Path.glob pathlib.Path.group pathlib.Path.hardlink_to"),
            Objects("pathlib.Path.iterdir pathlib.Path.lchmod pathlib.Path.link_to"),
            Objects("pathlib.Path.mkdir pathlib.Path.move pathlib.Path.move_into"),
            Objects("pathlib.Path.open pathlib.Path.owner pathlib.Path.read_bytes"),
            Objects("pathlib.Path.read_text pathlib.Path.readlink pathlib.Path.rename"),
            Objects("pathlib.Path.replace pathlib.Path.rglob pathlib.Path.rmdir"),
            Objects("pathlib.Path.symlink_to pathlib.Path.touch pathlib.Path.unlink"),
            Objects("pathlib.Path.walk pathlib.Path.write_bytes pathlib.Path.write_text"),
            Methods("read_text read_bytes write_text write_bytes symlink_to", Condition::Always),
            Methods("hardlink_to", Condition::Always),
            Methods("iterdir rglob glob chmod mkdir rmdir touch", Condition::Imported("pathlib")),
            Methods("unlink", Condition::Imported("pathlib")),
        ],
        why: "reads or writes files of the machine",
        remedy: IN_SCRIPT,
        matches: &[
            "from pathlib import Path\nPath('x').write_text('y')",
            "import pathlib\n(pathlib.Path('a') / 'b').unlink()",
            "import pathlib\np = pathlib.Path.home()\np.joinpath('x').read_bytes()",
            "from pathlib import Path\nfor p in Path('/').glob('*'): print(p)",
            "def f(p): p.read_text()",
        ],
        misses: &[
            "from pathlib import Path\nprint(Path('a/b').suffix, Path('a').parent.name)",
            "from pathlib import PurePath\nPurePath('a').with_suffix('.py')",
            "class Doc:\n    def read_text(self): return ''\nDoc().read_text()",
            "tree.touch()",
        ],
    },
    Rule {
        id: "files/shutil",
        severity: Severity::Block,
        targets: &[AllBut("shutil", "get_terminal_size which Error SameFileError ReadError")],
        why: "copies, moves or removes files",
        remedy: NO_FOLDERS,
        matches: &["import shutil\nshutil.rmtree('x')", "from shutil import copy"],
        misses: &["import shutil\nshutil.get_terminal_size()"],
    },
    Rule {
        id: "files/tempfile",
        severity: Severity::Block,
        targets: &[AllBut("tempfile", "gettempdir SpooledTemporaryFile TemporaryFile")],
        why: "makes files and folders that have names",
        remedy: "io.BytesIO or tempfile.TemporaryFile; there is no file to put into a folder",
        matches: &[
            "import tempfile\ntempfile.mkdtemp()",
            "from tempfile import NamedTemporaryFile",
        ],
        misses: &["import tempfile\nwith tempfile.TemporaryFile() as f: f.write(b'x')"],
    },
    Rule {
        id: "files/listing",
        severity: Severity::Block,
        targets: &[Modules("glob filecmp dircache watchdog scandir")],
        why: "lists folders of the machine",
        remedy: NO_FOLDERS,
        matches: &["import glob\nglob.glob('/etc/*')", "from glob import iglob"],
        misses: &["import fnmatch\nfnmatch.filter(['a'], '*')", "glob = 1\nprint(glob)"],
    },
    Rule {
        id: "files/readers",
        severity: Severity::Block,
        targets: &[
            Modules(
                "aifc binhex cgitb dotenv fileinput gettext imghdr importlib.resources linecache",
            ),
            Modules("mailbox netrc pstats readline sndhdr sunau syslog tabnanny uu"),
            Modules("zoneinfo._common"),
            AllBut("cgi", "escape"),
            AllBut("mimetypes", "guess_all_extensions guess_extension guess_type"),
            Objects("email.message_from_file configparser.ConfigParser.read"),
            Objects("configparser.RawConfigParser.read locale.bindtextdomain argparse.FileType"),
            Objects("traceback.FrameSummary traceback.StackSummary traceback.format_list"),
            Objects("traceback.print_list pkgutil.get_data tracemalloc.Snapshot"),
            Methods("sourcehook load_verify_locations dump_stats", Condition::Always),
            Methods("get_data set_data", Condition::Imported("importlib")),
            Calls("warnings.formatwarning warnings.showwarning", Condition::Always),
            Calls("warnings.warn_explicit", Condition::Always),
            Calls("argparse.ArgumentParser", Condition::Given(7, PREFIX)),
            Calls("argparse.ArgumentParser", Condition::Sets(PREFIX)),
            Target::Keywords(PREFIX),
            Calls("shlex.shlex", Condition::Sets("source")),
            Calls("inspect.getsource inspect.getsourcelines", Condition::Sets("__file__")),
            Calls("inspect.findsource inspect.getcomments", Condition::Sets("__file__")),
            Methods("dump", Condition::Imported("tracemalloc")),
            Methods("read_file", Condition::Imported("optparse")),
            Calls("platform.libc_ver", Condition::NamesFile(0, "executable")),
        ],
        why: "reads or writes files of the machine",
        remedy: IN_SCRIPT,
        matches: &[
            "import fileinput\nfor line in fileinput.input(['x']): print(line)",
            "import linecache\nlinecache.getline('x', 1)",
            "import configparser\nc = configparser.ConfigParser()\nc.read('x')",
            "import cgi\ncgi.log('x')",
            "import mimetypes\nmimetypes.MimeTypes(['x'])",
            "import warnings\nwarnings.showwarning('x', UserWarning, 'f', 1)",
            "import argparse\np = argparse.ArgumentParser()\np.fromfile_prefix_chars = '@'",
            "import argparse\np = argparse.ArgumentParser()\nsetattr(p, 'fromfile_' + 'prefix_chars', '@')",
            "import argparse\nclass P(argparse.ArgumentParser): pass\nP(fromfile_prefix_chars='@')",
            "import argparse\nclass P(argparse.ArgumentParser): pass\nclass Q(P): pass\nQ(*a, **k)",
            "import argparse\nclass P(argparse.ArgumentParser):\n    def __init__(self): \
             super().__init__(0, 0, 0, 0, [], 0, '-', '@')",
            "import argparse\nargparse.ArgumentParser.__init__(p, fromfile_prefix_chars='@')",
            "import argparse\ntype('P', (argparse.ArgumentParser,), {})(0, 0, 0, 0, [], 0, '-', '@')",
            "import argparse, types\ntypes.new_class('P', (argparse.ArgumentParser,))(0, 0, 0, 0, [], 0, '-', '@')",
            "import shlex\ns = shlex.shlex('include x')\ns.source = 'include'",
            "import inspect\nsetattr(m, '__fi' + 'le__', 'x')\ninspect.getsource(m)",
            "import inspect\nm.__file__ = 'x'\ninspect.getsource(m)",
            "import optparse\noptparse.Values().read_file('x', 'loose')",
        ],
        misses: &[
            "import configparser\nc = configparser.ConfigParser()\nc.read_string('[a]')",
            "import email\nemail.message_from_string('a: b')",
            "import zoneinfo\nzoneinfo.ZoneInfo('Europe/Paris')",
            "import mimetypes\nmimetypes.guess_type('x.png')",
            "import warnings\nwarnings.showwarning = show",
            "import inspect\ninspect.getsource(f)",
            "import argparse\nclass P(argparse.ArgumentParser):\n    def __init__(self, *a, **k): \
             super().__init__(*a, **k)\nP('x').parse_args([])",
            "import shlex\nshlex.split('a b')\ndata.source = 'x'",
        ],
    },
    Rule {
        id: "files/logging",
        severity: Severity::Block,
        targets: &[
            Objects("logging.FileHandler"),
            Modules("logging.handlers logging.config"),
            Calls("logging.basicConfig", Condition::Given(0, "filename")),
        ],
        why: "writes logs into files or to the network",
        remedy: "logging.basicConfig(level=logging.INFO) logs to stderr",
        matches: &[
            "import logging\nlogging.basicConfig(filename='x')",
            "import logging\nlogging.FileHandler('x')",
            "import logging.handlers",
            "import logging\nlogging.basicConfig(**options)",
        ],
        misses: &[
            "import logging\nlogging.basicConfig(level=logging.INFO)",
            "import logging\nlogging.getLogger('x').addHandler(logging.StreamHandler())",
        ],
    },
];

const PREFIX: &str = "fromfile_prefix_chars";

/// Members of `os` that are harmless: names, constants, and facts about this process.
const OS_HARMLESS: &str = "
    CLD_EXITED DirEntry EX_DATAERR EX_OK EX_SOFTWARE EX_USAGE F_OK O_CREAT O_RDONLY O_RDWR
    O_WRONLY PathLike R_OK SEEK_CUR SEEK_END SEEK_SET W_OK X_OK _Environ _exit altsep cpu_count
    curdir devnull environ environb error extsep fsdecode fsencode fspath get_terminal_size getcwd
    getcwdb getegid getenv getenvb geteuid getgid getloadavg getlogin getpgid getpgrp getpid
    getppid getpriority getrandom getuid isatty linesep name pardir path pathsep process_cpu_count
    putenv sched_getaffinity sched_yield sep strerror supports_bytes_environ sysconf sysconf_names terminal_size times
    times_result umask uname uname_result unsetenv urandom waitstatus_to_exitcode";

/// Members of `io` that are harmless, because they work in memory or are types of streams.
const IO_HARMLESS: &str = "
    BufferedIOBase BufferedRandom BufferedReader BufferedRWPair BufferedWriter BytesIO
    DEFAULT_BUFFER_SIZE IncrementalNewlineDecoder IOBase RawIOBase SEEK_CUR SEEK_END SEEK_SET
    StringIO TextIOBase TextIOWrapper UnsupportedOperation text_encoding";
