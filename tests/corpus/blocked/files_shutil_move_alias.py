# rule: files/shutil
# effect: writes
from shutil import move as shift
shift("secret.txt", "canary")
