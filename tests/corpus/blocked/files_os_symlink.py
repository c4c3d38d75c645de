# rule: files/os
# effect: writes
from os import symlink as pair
pair("secret.txt", "canary")
