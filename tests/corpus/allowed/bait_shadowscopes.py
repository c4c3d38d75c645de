# rule: none
# checks builtin names used as local names in nested scopes
def total(list, sum=0):
    for id in list:
        sum += id
    return sum

assert total([1, 2, 3]) == 6

def outer(open):
    def inner(exec):
        eval = exec * 2
        return eval + open
    compile = inner(5)
    return compile

assert outer(1) == 11

def scores(input):
    max = min = input[0]
    for next in input[1:]:
        if next > max:
            max = next
        if next < min:
            min = next
    return min, max

assert scores([3, 9, 1]) == (1, 9)

def make():
    def open(x):
        return f"<{x}>"
    def eval(x):
        return open(x) + "!"
    return eval

print(make()("a"))
assert make()("a") == "<a>!"
type = "kind"
hash, dir, vars = "#", "left", [1]
assert f"{type}{hash}{dir}{vars[0]}" == "kind#left1"
del type, hash, dir, vars
assert type(3) is int
