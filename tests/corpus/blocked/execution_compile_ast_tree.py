# rule: execution/compile
# effect: writes
import ast
tree = ast.parse("lambda: open('canary', 'w').close()", mode="eval")
(lambda: 0).__class__((c := compile)(tree, "m", "eval"), globals())()()
