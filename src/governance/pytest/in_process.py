# Runs pytest, the tests and the code under test in one process, like `python -m pytest` in the folder of the project.
# The script contains common.py before this file.
os.chdir(PROJECT)
sys.path[:0] = [PROJECT, *(path for path in FIRST if path not in sys.path)]
# These folders come after all installed packages, as in an editable installation.
sys.path.extend(path for path in LAST if path not in sys.path)
if FIRST:
    # Interpreters that tests start get the server's whole PYTHONPATH.
    others = os.environ.get("PYTHONPATH")
    os.environ["PYTHONPATH"] = os.pathsep.join([*FIRST, others] if others else FIRST)


class WrittenTally(Tally):
    def finish(self):
        write_report(self)


tally = WrittenTally()
reports = Reports(tally)
code, way = run_pytest(reports, ARGUMENTS, "junit.xml", [reports])
write(ended, "r+", f'{{"way": "{way}", "passed": {tally.counts["passed"]}}}\n')
sys.exit(code)
