# rule: files/pathlib
# effect: reads
from pathlib import Path
match Path("secret.txt"):
    case Path(read_text=get):
        print(get())
