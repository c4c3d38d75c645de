# rule: none
# checks bowling scores with variables named frame, frames and rolls
def score(rolls):
    frames, i, total = [], 0, 0
    for frame in range(10):
        if rolls[i] == 10:
            total += 10 + rolls[i + 1] + rolls[i + 2]
            i += 1
        elif rolls[i] + rolls[i + 1] == 10:
            total += 10 + rolls[i + 2]
            i += 2
        else:
            total += rolls[i] + rolls[i + 1]
            i += 2
        frames.append(total)
    return frames

class Frame:
    def __init__(self, f_back=None):
        self.f_back = f_back
        self.code = "strike"

    def depth(self):
        frame, n = self, 0
        while frame.f_back is not None:
            frame = frame.f_back
            n += 1
        return n

perfect = score([10] * 12)
print(perfect)
assert perfect[-1] == 300 and perfect[0] == 30
assert score([9, 0] * 10)[-1] == 90
assert score([5, 5] * 10 + [5])[-1] == 150
assert score([0] * 20) == [0] * 10
frame = Frame(Frame(Frame()))
assert frame.depth() == 2 and frame.code == "strike"
