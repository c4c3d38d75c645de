# rule: deserialisation/others
# effect: writes
import shelve
s = shelve.Shelf({b"k": b"cposix\nmknod\n(Vcanary\ntR."})
s["k"]
