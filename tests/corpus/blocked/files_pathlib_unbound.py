# rule: files/pathlib
# effect: reads
import pathlib
print(*map(pathlib.Path.read_text, map(pathlib.Path, ["secret.txt"])))
