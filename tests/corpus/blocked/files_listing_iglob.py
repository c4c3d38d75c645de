# rule: files/listing
# effect: prints
import glob
for name in glob.iglob("s*t.txt"):
    print("PWN" + "ED")
