# rule: process/subprocess
# effect: writes
import subprocess
class Job(subprocess.Popen): pass
Job([": > canary"], shell=True).wait()
