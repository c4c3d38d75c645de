# rule: files/pathlib
# effect: writes
from pathlib import Path
type(Path())("canary").write_bytes(b"")
