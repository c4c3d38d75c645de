# rule: process/multiprocessing
# effect: writes
from multiprocessing.context import ForkProcess
class Job(ForkProcess):
    def run(self, f=open): f("canary", "w").close()
j = Job()
j.start()
j.join()
