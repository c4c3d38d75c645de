# rule: deserialisation/others
# effect: writes
import numpy as np, io
np.load(io.BytesIO(b"cbuiltins\nexec\n(Vopen('canary', 'w').close()\ntR."), allow_pickle=True)
