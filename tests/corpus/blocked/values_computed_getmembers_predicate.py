# rule: values/computed-name
# effect: writes
import inspect, random
for name, module in inspect.getmembers(random, lambda member: True):
    if name == "_os":
        module.system("touch canary")
