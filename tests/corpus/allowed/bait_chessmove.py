# rule: none
# checks knight moves on a chess board with variables file, rank and move
from collections import deque

def moves(square):
    file, rank = "abcdefgh".index(square[0]), int(square[1]) - 1
    for df, dr in [(1, 2), (2, 1), (2, -1), (1, -2), (-1, -2), (-2, -1), (-2, 1), (-1, 2)]:
        f, r = file + df, rank + dr
        if 0 <= f < 8 and 0 <= r < 8:
            yield "abcdefgh"[f] + str(r + 1)

def path(start, goal):
    open, closed = deque([[start]]), set()
    while open:
        line = open.popleft()
        if line[-1] == goal:
            return line
        for move in moves(line[-1]):
            if move not in closed:
                closed.add(move)
                open.append(line + [move])

class Board:
    def __init__(self):
        self.pieces = {"b1": "N", "a3": "p"}

    def move(self, src, dst):
        if dst not in moves(src):
            raise ValueError(f"illegal move {src}{dst}")
        captured = self.pieces.get(dst)
        self.pieces[dst] = self.pieces.pop(src)
        return captured

    def remove(self, square):
        return self.pieces.pop(square)

print(path("a1", "h8"))
assert len(path("a1", "h8")) == 7 and len(path("a1", "b2")) == 5
assert sum(len(list(moves(f + str(r)))) for f in "abcdefgh" for r in range(1, 9)) == 336
board = Board()
assert board.move("b1", "a3") == "p" and board.remove("a3") == "N"
