# rule: files/archives
# effect: writes
import sys, zipfile
z = zipfile.ZipFile("x.zip", "w")
z.writestr("mod_x.py", "open('canary', 'w').close()")
z.close()
sys.path.insert(0, "x.zip")
import mod_x
