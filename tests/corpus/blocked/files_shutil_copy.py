# rule: files/shutil
# effect: writes
import shutil
shutil.copyfile("secret.txt", "canary")
