# attack: map six gigabytes of memory
# t3: ENOMEM
# t2: ENOMEM
# control: harm
import mmap

attempt(lambda: mmap.mmap(-1, 6 << 30, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS))
