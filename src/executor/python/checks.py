def check_counters(channel):
    # Counts the checks of a script: how often each one held or failed. The server knows from its analysis
    # where the checks are. Returns a function that compiles a script whose checks are counted. At the end of
    # the script, the counts go to the server through the descriptor `channel`.
    #
    # This code runs in the script's process, so a script can forge its counts, as it can forge its checks.
    # The server does not trust the data that it receives.
    import os, sys

    FIELDS = {"b": "body", "o": "orelse", "f": "finalbody", "h": "handlers", "c": "cases"}
    ONLY_AST = 0x400
    # The start of the names of the counters. No script can contain such a name. It is long, so that Python
    # never suggests it for a misspelt name.
    PREFIX = "\0counter" + "\0" * 40
    COUNT_MAX = sys.maxsize

    def counted(script, plan, compile):
        # Returns the code of the script. A counter is a function of the C library of Python: it returns None
        # or True, and creates no frame, so tracebacks are the same as without counters.
        import _ast, atexit, builtins, itertools

        def uncounted():
            return compile(script, "<string>", "exec", dont_inherit=True)

        try:
            tree = compile(script, "<string>", "exec", ONLY_AST, dont_inherit=True)
        except (RecursionError, MemoryError):
            # Python can compile deeper scripts than it can make a tree of.
            return uncounted()
        # The number of checks, and the changes of the tree, the last ones in the source first.
        total, *edits = plan.split(" ")
        total, own_number = int(total), os.getpid()
        counters, not_found = [], []
        names = vars(builtins)
        load, new_name, new_call = _ast.Load(), _ast.Name, _ast.Call

        def count(number, line, column):
            name = new_name(PREFIX + str(number), load, lineno=line, col_offset=column)
            return new_call(name, [], [], lineno=line, col_offset=column)

        def is_at(node, place):
            return place == [node.lineno, node.col_offset, node.end_lineno, node.end_col_offset]

        def counted_element(node, check):
            line, column = node.lineno, node.col_offset
            return _ast.BoolOp(
                _ast.And(), [count(3 * check + 2, line, column), node], lineno=line, col_offset=column,
                end_lineno=node.end_lineno, end_col_offset=node.end_col_offset,
            )

        def count_elements(statement, check, place):
            # Finds an expression of a comprehension by its place, and counts its evaluations. If it is not found,
            # the collection counts as not empty.
            nodes = [statement]
            while nodes:
                node = nodes.pop()
                if isinstance(node, (_ast.ListComp, _ast.SetComp, _ast.GeneratorExp, _ast.DictComp)):
                    name = "value" if isinstance(node, _ast.DictComp) else "elt"
                    if is_at(getattr(node, name), place):
                        setattr(node, name, counted_element(getattr(node, name), check))
                        return
                    for tests in [generator.ifs for generator in node.generators]:
                        for index, test in enumerate(tests):
                            if is_at(test, place):
                                tests[index] = counted_element(test, check)
                                return
                            if isinstance(test, _ast.BoolOp) and is_at(test.values[-1], place):
                                test.values[-1] = counted_element(test.values[-1], check)
                                return
                for field in node._fields:
                    part = getattr(node, field, None)
                    if isinstance(part, list):
                        nodes.extend(item for item in part if isinstance(item, _ast.AST))
                    elif isinstance(part, _ast.AST):
                        nodes.append(part)
            not_found.append(3 * check + 2)

        def edit(action, check, path):
            path, _, place = path.partition("@")
            *way, last = path.split(".")
            node = tree
            for step in way:
                node = getattr(node, FIELDS[step[0]])[int(step[1:])]
            body, index = getattr(node, FIELDS[last[0]]), int(last[1:])
            node = body[index]
            if action == "e":
                count_elements(node, check, [int(number) for number in place.split("-")])
            elif action == "a":
                call = node.value if isinstance(node, _ast.Expr) else node.exc
                status = call.args[0]
                line, column = status.lineno, status.col_offset
                pair = _ast.Tuple([status, count(3 * check, line, column)], load, lineno=line, col_offset=column)
                first = _ast.Constant(0, lineno=line, col_offset=column)
                if sys.version_info < (3, 9):
                    first = _ast.Index(first)
                call.args[0] = _ast.Subscript(pair, first, load, lineno=line, col_offset=column)
            elif action == "t":
                test = node.test
                line, column = test.lineno, test.col_offset
                node.test = _ast.IfExp(
                    test, count(3 * check, line, column), count(3 * check + 1, line, column),
                    lineno=line, col_offset=column,
                    end_lineno=test.end_lineno, end_col_offset=test.end_col_offset,
                )
            else:
                line, column = node.lineno, node.col_offset
                is_after = action == "y"
                counter = count(3 * check + is_after, line, column)
                body.insert(index + is_after, _ast.Expr(counter, lineno=line, col_offset=column))

        try:
            for part in edits:
                check, path = part[1:].split(":")
                edit(part[0], int(check), path)
            code = compile(tree, "<string>", "exec", dont_inherit=True)
        except (LookupError, AttributeError, TypeError, ValueError, RecursionError, MemoryError):
            # This version of Python has another tree than the server expects, or cannot compile a tree that is
            # so deep. The script runs without counters.
            return uncounted()
        for number in range(3 * total):
            counter = itertools.repeat(None if number % 3 == 1 else True, COUNT_MAX)
            counters.append(counter)
            names[PREFIX + str(number)] = counter.__next__
        for number in not_found:
            next(counters[number])

        def send():
            # A child of the script has the descriptor too, but must not send anything.
            if os.getpid() != own_number:
                return
            counts = (COUNT_MAX - counter.__length_hint__() for counter in counters)
            content = b"".join(count.to_bytes(8, "little") for count in counts)
            rest = memoryview(b"C" + len(content).to_bytes(4, "little") + content)
            while rest:
                rest = rest[os.write(channel, rest):]

        atexit.register(send)
        return code

    return counted
