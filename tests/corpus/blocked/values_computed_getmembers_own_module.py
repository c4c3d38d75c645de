# rule: files/io
# effect: writes
import inspect, json
class A:
    module = json
for name, member in inspect.getmembers(A):
    if name == "module":
        holder = member.codecs
        holder.open("canary", "w")
