# rule: none
# checks builtin names as comprehension variables, loop targets and lambda parameters
rows = [(1, "a"), (2, "b"), (3, "c")]

assert [eval for eval, _ in rows] == [1, 2, 3]
assert {open: input for open, input in rows} == {1: "a", 2: "b", 3: "c"}
assert sum(exec * exec for exec in range(4)) == 14
apply = lambda compile, input: compile(input)
assert apply(str.upper, "x") == "X"
assert (lambda eval: eval + 1)(41) == 42
assert sorted(rows, key=lambda open: -open[0])[0] == (3, "c")

for open, (input, exec) in enumerate(rows):
    assert open + 1 == input and exec in "abc"
del open, input, exec

first, *compile = [1, 2, 3]
assert compile == [2, 3]
with_walrus = [eval for v in range(6) if (eval := v * v) > 10]
print(with_walrus)
assert with_walrus == [16, 25]

functions = [lambda x, eval=k: eval * x for k in range(3)]
assert [open(10) for open in functions] == [0, 10, 20]
print("all scopes behave")
