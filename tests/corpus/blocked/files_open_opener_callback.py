# rule: files/open
# effect: reads
import os
print(open("missing", opener=lambda p, fl, f=os.open: f("secret.txt", fl)).read())
