# Runs pytest as `python -m pytest` does in the folder of the project: tests, pytest and code under test in one
# process. Before this stands common.py.
os.chdir(PROJECT)
sys.path[:0] = [PROJECT, *(path for path in FIRST if path not in sys.path)]
# Behind everything installed, as an editable install has it.
sys.path.extend(path for path in LAST if path not in sys.path)
if FIRST:
    # For interpreters that tests start: what the server has in PYTHONPATH.
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
