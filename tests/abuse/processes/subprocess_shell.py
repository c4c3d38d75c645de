# attack: run a shell command
# t3: EPERM
# t2: EPERM
# control: harm
import subprocess

attempt(lambda: subprocess.run(["/bin/sh", "-c", "exit 0"], check=True))
