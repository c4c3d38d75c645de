# rule: deserialisation/pickle
# effect: prints
import pickle, io
class Loader(pickle.Unpickler):
    persistent_load = staticmethod(eval)
Loader(io.BytesIO(b"Pprint('PWN'+'ED')\n.")).load()
