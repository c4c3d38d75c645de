# rule: files/shutil
# effect: writes
import tempfile
tempfile._shutil.copy("secret.txt", "canary")
