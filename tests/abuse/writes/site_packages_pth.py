# attack: plant a .pth file that every later interpreter would run
# t3: EROFS | EACCES | ENOENT
# t2: EACCES | ENOENT
# control: harm as root
import sysconfig


def attack():
    path = os.path.join(sysconfig.get_path("purelib"), "@OUT_TAG@.pth")
    os.close(os.open(path, os.O_WRONLY | os.O_CREAT, 0o644))
    os.unlink(path)


attempt(attack)
