# rule: files/readers
# effect: reads
import inspect, types
m = types.ModuleType("m")
m.__dict__.update(__file__="secret.txt")
print(inspect.getsource(m))
