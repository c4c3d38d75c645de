# rule: deserialisation/pickle
# effect: writes
from pickle import loads as parse
parse(b"cbuiltins\nexec\n(Vopen('canary', 'w').close()\ntR.")
