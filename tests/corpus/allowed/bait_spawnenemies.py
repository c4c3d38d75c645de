# rule: none
# simulates enemies that spawn and get killed with a fixed seed
import random
from collections import Counter

class Game:
    def __init__(self, seed):
        self.rng = random.Random(seed)
        self.enemies, self.kills, self.clock = [], Counter(), 0

    def spawn(self, kind, hp):
        self.enemies.append([kind, hp])

    def kill(self, enemy):
        self.enemies.remove(enemy)
        self.kills[enemy[0]] += 1

    def exec_turn(self):
        self.clock += 1
        if self.rng.random() < 0.5:
            self.spawn(*self.rng.choice([("orc", 4), ("rat", 1), ("troll", 9)]))
        if self.enemies:
            enemy = self.enemies[0]
            enemy[1] -= self.rng.randint(1, 3)
            if enemy[1] <= 0:
                self.kill(enemy)

games = [Game(7), Game(7), Game(8)]
for game in games:
    for _ in range(300):
        game.exec_turn()
print(dict(games[0].kills), len(games[0].enemies))
assert games[0].kills == games[1].kills, "same seed, same game"
assert games[0].clock == 300
total = sum(games[0].kills.values()) + len(games[0].enemies)
assert 100 < total < 200
