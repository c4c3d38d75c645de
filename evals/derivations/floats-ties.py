"""Converts the integer, and chooses among the two neighbours by hand."""

claimed = 9_007_199_254_740_996

number = 9_007_199_254_740_995
converted = int(float(number))
# Above 2^53, the distance is 2. So the integer is in the middle of two numbers with 53 bits, and the even one wins.
below = (number - 1) // 2
by_hand = 2 * (below if below % 2 == 0 else below + 1)
print(converted, by_hand)
assert converted == by_hand
assert converted == claimed
