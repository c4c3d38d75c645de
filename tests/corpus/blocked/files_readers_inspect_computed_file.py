# rule: files/readers
# effect: reads
import inspect, types
m = types.ModuleType("m")
setattr(m, "__fi" + "le__", "secret.txt")
print(inspect.getsource(m))
