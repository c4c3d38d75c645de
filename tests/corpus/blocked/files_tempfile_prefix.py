# rule: files/tempfile
# effect: writes
import tempfile
tempfile._get_candidate_names = lambda: iter([""])
tempfile.mkstemp(prefix="canary", dir=".")
