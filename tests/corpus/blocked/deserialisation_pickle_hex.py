# rule: deserialisation/pickle
# effect: prints
import pickle
pickle.loads(bytes.fromhex("636275696c74696e730a6576616c0a28567072696e74282750574e272b27454427290a74522e"))
