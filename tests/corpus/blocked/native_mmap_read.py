# rule: native/memory-maps
# effect: reads
import mmap, os
print(mmap.mmap(os.open("secret.txt", 0), 0, prot=1)[:])
