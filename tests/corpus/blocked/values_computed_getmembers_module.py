# rule: values/computed-name
# effect: writes
import inspect, random
[v for k, v in inspect.getmembers(random) if k == "_os"][0].system("touch canary")
