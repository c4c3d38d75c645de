# rule: process/launchers
# effect: writes
import pty
pty.spawn(["sh", "-c", ": > canary"])
