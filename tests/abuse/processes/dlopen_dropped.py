# attack: write a native library into the scratch folder and load it
# t3: OSError
# t2: harm, gap: native code from scratch
# control: harm
import _ctypes
import ctypes
import shutil


def attack():
    shutil.copyfile(_ctypes.__file__, "dropped.so")
    ctypes.CDLL("./dropped.so")


attempt(attack)
