# rule: none
# checks indicators on open/high/low/close candles
from collections import namedtuple
from dataclasses import dataclass

Candle = namedtuple("Candle", "open high low close")

@dataclass
class Bar:
    open: float
    high: float
    low: float
    close: float

    @property
    def bullish(self):
        return self.close > self.open

candles = [Candle(10, 12, 9, 11), Candle(11, 13, 10, 12.5), Candle(12.5, 12.6, 11, 11.2), Candle(11.2, 14, 11, 13.9)]
for open, high, low, close in candles:
    assert low <= min(open, close) and high >= max(open, close)

bars = [Bar(*c) for c in candles]
print([b.bullish for b in bars])
assert [b.bullish for b in bars] == [True, True, False, True]

opens = [c.open for c in candles]
gaps = [b.open - a.close for a, b in zip(candles, candles[1:])]
assert gaps == [0, 0, 0] and opens[0] == 10
tr = [max(b.high - b.low, abs(b.high - a.close), abs(b.low - a.close)) for a, b in zip(candles, candles[1:])]
print("ATR:", sum(tr) / len(tr))
assert Bar(open=1, high=2, low=0.5, close=1.5).open == 1
