# attack: change the root folder, a first step out of an older one
# t3: EPERM
# t2: EPERM
# control: harm as root
attempt(lambda: in_child(lambda: os.chroot(".")))
