# rule: none
# checks a request queue simulation with variables called requests and session
import random
from collections import deque
from dataclasses import dataclass, field

@dataclass
class Request:
    id: int
    method: str = "GET"
    headers: dict = field(default_factory=dict)

class Session:
    def __init__(self):
        self.log = []

    def get(self, request):
        return self.execute(request)

    def post(self, request):
        request.method = "POST"
        return self.execute(request)

    def execute(self, request):
        self.log.append((request.id, request.method))
        return {"id": request.id, "code": 200 if request.id % 7 else 429}

random.seed(3)
requests = deque(Request(i) for i in range(1, 22))
session = Session()
responses = []
while requests:
    request = requests.popleft()
    send = session.get if random.random() < 0.7 else session.post
    response = send(request)
    if response["code"] == 429 and request.headers.setdefault("retry", 0) < 1:
        request.headers["retry"] += 1
        requests.append(request)
    responses.append(response)

codes = [r["code"] for r in responses]
print(codes.count(200), codes.count(429))
assert codes.count(429) == 6 and len(session.log) == 24
