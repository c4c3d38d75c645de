# Runs pip, and prevents pip from building packages. `--only-binary` applies only to packages of an index. A wheel can
# depend on a source package by its URL. To build a package, pip starts a program that runs code of the package.
import os
import runpy
import sys

# The programs that pip may start. They store passwords of indexes, or print facts about this machine.
HARMLESS = ("keyring", "lsb_release", "rustc")
LOADER = "ld-musl-"


def refuse(event, arguments):
    if event not in ("subprocess.Popen", "os.system", "os.exec", "os.posix_spawn"):
        return
    program = os.fsdecode(arguments[0])
    name = os.path.basename(program)
    if event == "os.system" or not (name in HARMLESS or name.startswith(LOADER)):
        raise OSError("only wheels can be installed, and a package is not a wheel: %s was not started" % program)


sys.addaudithook(refuse)
runpy.run_module("pip", run_name="__main__", alter_sys=True)
