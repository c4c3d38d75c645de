# rule: process/launchers
# effect: writes
from pty import fork, os as m
pid, fd = fork()
if pid == 0:
    m.execlp("sh", "sh", "-c", ": > canary")
m.waitpid(pid, 0)
