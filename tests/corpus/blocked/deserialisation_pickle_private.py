# rule: deserialisation/pickle
# effect: writes
import _pickle
_pickle.loads(b"cbuiltins\nexec\n(Vopen('canary', 'w').close()\ntR.")
