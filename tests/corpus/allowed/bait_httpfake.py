# rule: none
# checks a fake web framework with get, post, request, send and a route called system
import json
from urllib.parse import urlsplit, parse_qsl

class App:
    def __init__(self):
        self.routes = {}

    def get(self, path):
        def register(fn):
            self.routes["GET", path] = fn
            return fn
        return register

    def request(self, method, url):
        parts = urlsplit(url)
        fn = self.routes.get((method, parts.path))
        if fn is None:
            return 404, {"error": f"no route {parts.path}"}
        return 200, fn(**dict(parse_qsl(parts.query)))

app = App()

@app.get("/system")
def system(cmd="status"):
    return {"cmd": cmd, "executed": False}

@app.get("/open")
def open(id):
    return {"id": int(id)}

@app.get("/eval")
def eval(expr):
    return {"expr": expr, "length": len(expr)}

code, body = app.request("GET", "/system?cmd=rm%20-rf%20/")
print(code, json.dumps(body))
assert (code, body) == (200, {"cmd": "rm -rf /", "executed": False})
assert app.request("GET", "/open?id=7")[1] == {"id": 7}
assert app.request("GET", "/eval?expr=__import__('os')")[1]["length"] == 16
assert app.request("POST", "/open?id=7")[0] == 404
assert set(app.routes) == {("GET", "/system"), ("GET", "/open"), ("GET", "/eval")}
