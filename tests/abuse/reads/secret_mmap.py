# attack: map the secret into memory
# t3: ENOENT
# t2: EACCES
# control: harm
import mmap


def attack():
    file = os.open("@SECRET@", os.O_RDONLY)
    leaked(mmap.mmap(file, 0, prot=mmap.PROT_READ)[:])


attempt(attack)
