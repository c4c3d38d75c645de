# rule: none
# checks a tiny lisp interpreter whose own function is called eval
import math
import operator as op

def tokenize(text):
    return text.replace("(", " ( ").replace(")", " ) ").split()

def read(tokens):
    tok = tokens.pop(0)
    if tok == "(":
        out = []
        while tokens[0] != ")":
            out.append(read(tokens))
        tokens.pop(0)
        return out
    try:
        return int(tok)
    except ValueError:
        return tok

ENV = {"+": op.add, "*": op.mul, "-": op.sub, "<": op.lt, "sqrt": math.isqrt}

def eval(x, env=ENV):
    if isinstance(x, str):
        return env[x]
    if isinstance(x, int):
        return x
    head, *args = x
    if head == "if":
        test, yes, no = args
        return eval(yes if eval(test, env) else no, env)
    if head == "lambda":
        params, body = args
        return lambda *vals: eval(body, {**env, **dict(zip(params, vals))})
    if head == "define":
        env[args[0]] = eval(args[1], env)
        return None
    fn, *vals = [eval(part, env) for part in x]
    return fn(*vals)

def run(text):
    return eval(read(tokenize(text)))

run("(define fact (lambda (n) (if (< n 2) 1 (* n (fact (- n 1))))))")
print(run("(fact 10)"))
assert run("(fact 10)") == 3628800
assert run("((lambda (a b) (+ a (* b b))) 3 4)") == 19
