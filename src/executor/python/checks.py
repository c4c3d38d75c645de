def check_counters(channel):
    # Counts how often each check of a script held or failed. The server's analysis finds the checks.
    #
    # Returns three functions. `counted` compiles a script with counters for its checks. `ended_by` receives the
    # exception that ended the script, or None, and sends the values that the failed check compared. `rehearse` touches
    # the memory that counting needs. The descriptor `channel` leads to the server. The counts are sent at the end of
    # the script.
    #
    # This code runs in the script's process, so a script can forge its counts and values. The server does not trust
    # them.
    import builtins, os, sys

    FIELDS = {"b": "body", "o": "orelse", "f": "finalbody", "h": "handlers", "c": "cases"}
    ONLY_AST = 0x400
    # The prefix of the names of the counters. No script can contain such a name. The prefix is long, so that Python
    # never suggests a counter for a misspelt name.
    PREFIX = "\0counter" + "\0" * 40
    COUNT_MAX = sys.maxsize
    # The limits for recorded values.
    OPERANDS_MAX, VALUES_MAX, CHARACTERS_MAX, BITS_MAX, ITEMS_MAX, DEPTH_MAX = 6, 8, 120, 400, 20, 3
    EXCEPTIONS_MAX, FRAMES_MAX, SECONDS_MIN, SECONDS_MAX = 8, 100, 0.01, 0.5
    seconds_left = SECONDS_MAX
    # The types of values that a second use does not change, and the names of such types in modules.
    DATA = {bool, int, float, complex, str, bytes, type(None)}
    MODULE_DATA = {
        ("fractions", "Fraction"), ("decimal", "Decimal"), ("datetime", "date"), ("datetime", "datetime"),
        ("datetime", "time"), ("datetime", "timedelta"),
    }
    COLLECTIONS = {str, bytes, range, list, tuple, set, frozenset, dict}
    # A second use does not change a defaultdict either, because the first use has already stored the values of missing
    # keys.
    MODULE_COLLECTIONS = {
        ("collections", "Counter"), ("collections", "OrderedDict"), ("collections", "defaultdict"),
        ("collections", "deque"),
    }
    # The maximum number of items of a value, and of bits of an integer. Operations on larger values take long.
    DATA_MAX = 50_000
    own_builtins, size_of = dict(vars(builtins)), len
    # The tests whose values are recorded. Each entry has the statement, its test, the number of the check, a function,
    # the operands, their values, and the PID. The function returns COUNT_MAX minus the number of failures.
    watched = []
    source = ""
    # `counts` contains the counts of a script without counters. The function `infer` determines these counts from the
    # exception that ended the script, or from None. The variable `infer` is None for a script with counters, and after
    # the end of the script.
    counts, infer = [], None
    # The functions that remove the counters again.
    undo = []

    def send(kind, content):
        rest = memoryview(kind + size_of(content).to_bytes(4, "little") + content)
        while rest:
            rest = rest[os.write(channel, rest):]

    def send_at_exit(counts_of):
        # Registers a function that sends the counts when the script ends. Returns this function.
        import atexit

        own_number = os.getpid()

        def send_counts():
            # A child of the script has the descriptor too, but must not send anything.
            counts = counts_of()
            if counts and os.getpid() == own_number:
                send(b"C", b"".join(count.to_bytes(8, "little") for count in counts))

        atexit.register(send_counts)
        return send_counts

    def counted(script, plan, compile):
        # The plan has the number of checks, and the edits of the tree in the reverse order of the source.
        total, *edits = plan.split(" ")
        total = int(total)
        if edits[0][0] == "i":
            return inferred(script, total, edits, compile)
        # Pauses the garbage collector. Each collection would visit the many objects of the tree, which are not
        # garbage.
        import gc

        is_enabled = gc.isenabled()
        gc.disable()
        try:
            return count_checks(script, total, edits, compile)
        finally:
            if is_enabled:
                gc.enable()

    def inferred(script, total, edits, compile):
        # Returns the code of a script that needs no counters. Its checks are statements of the module, so each of them
        # is executed at most once. The line at which the script ended determines which of them held.
        nonlocal infer
        own_number = os.getpid()

        def infer(error):
            if os.getpid() != own_number:
                return
            trace, counts[:] = error and error.__traceback__, [0] * (3 * total)
            while trace is not None:
                code = trace.tb_frame.f_code
                if (code.co_filename, code.co_name) == ("<verification>", "<module>"):
                    break
                trace = trace.tb_next
            reached = None
            for edit in edits:
                check, lines = edit[1:].split(":")
                check, (first, last) = int(check), map(int, lines.split("-"))
                if error is None or (trace is not None and last < trace.tb_lineno):
                    counts[3 * check] = 1
                elif trace is not None and first <= trace.tb_lineno:
                    reached = check, first, last
            if reached is not None and has_failed(error, trace):
                counts[3 * reached[0] + 1] = 1
                if sys.gettrace() is None and sys.getprofile() is None:
                    fail_again(*reached, trace.tb_frame)

        def fail_again(check, first, last, frame):
            # Runs a failed check again, with counters, to send the values that the check compares. If a second run
            # could have effects, take long or compare other values, sends only the values of the check's names.
            text = "\n" * (first - 1) + "".join(lines_of(script)[first - 1 : last])
            try:
                code = counted(text, "%d t%d:b0" % (total, check), compile)
                if all(is_same_again(name, frame.f_globals) for name in names_read(watched[0][0])):
                    exec(code.replace(co_filename="<verification>"), frame.f_globals)
                else:
                    send_values(watched[0], frame)
            except Exception as error:
                report_failure(error)
            finally:
                forget_counters()

        send_at_exit(lambda: counts)
        return compile(script, "<string>", "exec", dont_inherit=True)

    def has_failed(error, trace):
        # Returns whether `error` means that the condition of an `assert` is false. If the condition is false, Python
        # loads the class AssertionError and then evaluates the message, which can raise another exception. So this
        # function searches for the load of AssertionError before the instruction that raised `error`.
        if type(error) is AssertionError and trace.tb_next is None:
            return True
        import dis

        is_false = False
        for instruction in dis.get_instructions(trace.tb_frame.f_code):
            if instruction.offset > trace.tb_lasti:
                return is_false
            if instruction.opname in ("LOAD_ASSERTION_ERROR", "LOAD_COMMON_CONSTANT"):
                is_false = "COMMON" not in instruction.opname or "AssertionError" in instruction.argrepr
            elif instruction.opname == "RAISE_VARARGS":
                is_false = False
        return is_false

    def is_same_again(name, names):
        # Returns whether a second use of a global variable has no effects, takes little time and gives the same result.
        if name not in names:
            return vars(builtins).get(name) is own_builtins.get(name)
        value = names[name]
        kind = type(value)
        if kind is type(len):
            return value.__self__ in (builtins, sys.modules.get("math"))
        if issubclass(kind, type):
            return value in DATA or name_of(value) in MODULE_DATA | MODULE_COLLECTIONS
        return kind is type(sys) or is_data(value, [DATA_MAX])

    def is_data(value, left):
        # Returns whether a value consists of numbers, texts and collections of them. The list `left` contains the
        # number of items that may still follow.
        kind = type(value)
        if kind is int:
            return value.bit_length() <= DATA_MAX
        if kind not in COLLECTIONS and name_of(kind) not in MODULE_COLLECTIONS:
            return kind in DATA or name_of(kind) in MODULE_DATA
        left[0] -= len(value)
        if left[0] < 0 or kind in (str, bytes, range):
            return left[0] >= 0
        return all(is_data(item, left) for item in value) and (
            not isinstance(value, dict) or all(is_data(item, left) for item in value.values())
        )

    def name_of(kind):
        return kind.__module__, kind.__name__

    def count_checks(script, total, edits, compile):
        # Returns the code of the script with counters. A counter is a C function (`repeat.__next__`) that returns None
        # or True. It creates no frame, so tracebacks are the same as without counters. The counter of an exit status
        # is a Python function that returns before the script exits.
        import _ast, atexit, itertools

        nonlocal source
        source = script

        def uncounted():
            del watched[:]
            return compile(script, "<string>", "exec", dont_inherit=True)

        try:
            tree = compile(script, "<string>", "exec", ONLY_AST, dont_inherit=True)
        except (RecursionError, MemoryError):
            # The script is nested too deeply for a tree. Python may still be able to compile the script.
            return uncounted()
        own_number = os.getpid()
        # The counters and other functions that the edited tree calls, by their names.
        added = {}
        # Record values only if the script uses no profiler or tracer, which would count the functions that record
        # values.
        keeps = not any(word in script for word in ("settrace", "rofile", "import trace", "monitoring"))
        counters, elements, not_found, exits = [], set(), [], []
        names = vars(builtins)
        load, new_name, new_call = _ast.Load(), _ast.Name, _ast.Call
        PLAIN = frozenset([
            _ast.Constant, _ast.Name, _ast.Lambda, _ast.Starred, _ast.GeneratorExp, _ast.JoinedStr,
        ])

        def count(number, line, column):
            name = new_name(PREFIX + str(number), load, lineno=line, col_offset=column)
            return new_call(name, [], [], lineno=line, col_offset=column)

        def is_plain(node):
            # Returns whether the text of an expression and the values of its names show its value.
            kind = type(node)
            if kind in (_ast.Tuple, _ast.List, _ast.Set):
                return all(map(is_plain, node.elts))
            return is_plain(node.operand) if kind is _ast.UnaryOp else kind in PLAIN

        def keep_operands(test, check):
            # Wraps the operands of comparisons and the arguments of a call in functions that store their values. The
            # values are dropped when the check holds. Returns the operands, and the list with the values.
            operands, values = [], []

            def keep(node):
                if type(node) in PLAIN or is_plain(node) or len(operands) == OPERANDS_MAX:
                    return node
                number = len(operands)
                operands.append(node)
                values.append(values)

                def kept(value):
                    values[number] = value
                    return value

                line, column = node.lineno, node.col_offset
                name = PREFIX + "k%d.%d" % (check, number)
                added[name] = kept
                name = new_name(name, load, lineno=line, col_offset=column)
                return new_call(name, [node], [], lineno=line, col_offset=column)

            nodes = [test]
            for node in nodes:
                kind = type(node)
                if kind is _ast.Compare:
                    node.left = keep(node.left)
                    node.comparators[:] = map(keep, node.comparators)
                elif kind is _ast.BoolOp:
                    nodes += node.values
                elif kind is _ast.UnaryOp and type(node.op) is _ast.Not:
                    nodes.append(node.operand)
                elif kind is _ast.Call and type(node.func) in (_ast.Name, _ast.Attribute):
                    node.args[:] = map(keep, node.args)
            return operands, values

        def is_at(node, place):
            return place == [node.lineno, node.col_offset, node.end_lineno, node.end_col_offset]

        def counted_element(node, check):
            elements.add(3 * check + 2)
            line, column = node.lineno, node.col_offset
            return _ast.BoolOp(
                _ast.And(), [count(3 * check + 2, line, column), node], lineno=line, col_offset=column,
                end_lineno=node.end_lineno, end_col_offset=node.end_col_offset,
            )

        def count_elements(statement, check, place):
            # Finds an expression of a comprehension by its position, and counts its evaluations. If the expression is
            # not found, the collection counts as not empty.
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
                exits.append(check)
                name = new_name(PREFIX + "s%d" % check, load, lineno=line, col_offset=column)
                call.args[0] = new_call(name, [status], [], lineno=line, col_offset=column)
            elif action in ("t", "f"):
                test = node.test
                line, column = test.lineno, test.col_offset
                fails = action == "f"
                operands, values = keep_operands(test, check) if keeps else ((), None)
                watched.append((node, test, check, fails, operands, values))
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
            # Run the script without counters. The tree of this version of Python differs from the tree that the server
            # expects, or is too deep to compile.
            return uncounted()
        # Each check has three counters. The tree uses the third counter only for checks of elements.
        for number in range(3 * total):
            counter = itertools.repeat(None if number % 3 == 1 else True, COUNT_MAX)
            counters.append(counter)
            if number % 3 < 2 or number in elements:
                added[PREFIX + str(number)] = counter.__next__
        for number in not_found:
            next(counters[number])
        send_counts = send_at_exit(lambda: [COUNT_MAX - counter.__length_hint__() for counter in counters])

        def count_status(held, failed):
            # Returns a function that counts an exit status. A status that is neither 0 nor None is a failure, even if
            # the operating system truncates it to 0. The function calls no methods of the script's object.
            def counted_status(status):
                is_int = issubclass(type(status), int)
                is_success = status is None or (is_int and int.bit_length(status) == 0)
                (held if is_success else failed)()
                return status

            return counted_status

        for check in exits:
            held, failed = counters[3 * check : 3 * check + 2]
            added[PREFIX + "s%d" % check] = count_status(held.__next__, failed.__next__)

        def forget(next, values, empty):
            # Returns a function that counts a check that held, and drops the stored values, because Python does not
            # finalize an object while it is stored.
            def held():
                values[:] = empty
                return next()

            return held

        for number, (node, test, check, fails, operands, values) in enumerate(watched):
            if operands:
                held = PREFIX + str(3 * check + fails)
                added[held] = forget(added[held], values, [values] * len(values))
            has_failed = counters[3 * check + (not fails)].__length_hint__
            watched[number] = node, test, check, has_failed, operands, values, own_number
        names.update(added)
        undo.append(lambda: atexit.unregister(send_counts))
        undo.append(lambda: [names.pop(name) for name in added])
        return code

    def rehearse(compile):
        # Counts two sample checks in a forked child before a caller waits. So the memory pages that counting touches
        # are already copied when the script starts.
        exec(counted("assert len('a') == 1, 'no'\nassert len('a') == 1", "2 t1:b1 t0:b0", compile), {})
        forget_counters()

    def forget_counters():
        del watched[:]
        for step in undo:
            step()
        del undo[:]

    def ended_by(error):
        nonlocal infer
        try:
            if infer is not None:
                last_infer, infer = infer, None
                last_infer(error)
            else:
                report_failure(error)
        except BaseException:
            # Ignore errors, because the counts and values are optional.
            pass

    def report_failure(error):
        # Sends the values that the failed check compared, if a failed check raised the exception that ended the
        # script.
        if watched and sys.gettrace() is None and sys.getprofile() is None:
            found = failed_check(error)
            if found is not None:
                send_values(*found)

    def failed_check(error):
        # Returns the watched check whose statement raised the exception or one of its contexts, and the frame of the
        # statement. Returns None if no watched check raised it.
        for _ in range(EXCEPTIONS_MAX):
            if error is None:
                return None
            frames, trace = [], error.__traceback__
            while trace is not None:
                frames.append((trace.tb_frame, trace.tb_lineno))
                trace = trace.tb_next
            for frame, line in reversed(frames[-FRAMES_MAX:]):
                if frame.f_code.co_filename != "<verification>":
                    continue
                around = [it for it in watched if it[0].lineno <= line <= it[0].end_lineno and it[3]() < COUNT_MAX]
                if around:
                    return min(around, key=lambda it: it[0].end_lineno - it[0].lineno), frame
            error = error.__context__
        return None

    def lines_of(script):
        # Returns the lines of a script as Python's tokenizer splits them.
        return [line + "\n" for line in script.replace("\r\n", "\n").replace("\r", "\n").split("\n")]

    def names_read(node):
        # Returns the names that a syntax tree reads and does not bind, in the order of the source.
        import _ast

        bound, nodes, names = set(), [node], {}
        while nodes:
            node = nodes.pop()
            if isinstance(node, _ast.Name):
                if isinstance(node.ctx, _ast.Load):
                    names[node.id] = None
                else:
                    bound.add(node.id)
            for field in reversed(node._fields):
                part = getattr(node, field, None)
                part = part if isinstance(part, list) else [part]
                nodes.extend(item for item in reversed(part) if isinstance(item, _ast.AST))
        return [name for name in names if name not in bound and not name.startswith(PREFIX)]

    def send_values(check, frame):
        _, test, number, _, operands, kept, own_number = check
        if os.getpid() != own_number:
            return
        lines = [line.encode() for line in lines_of(source)]

        def text_of(node):
            part = lines[node.lineno - 1 : node.end_lineno]
            part[-1] = part[-1][: node.end_col_offset]
            part[0] = part[0][node.col_offset :]
            return b"".join(part).decode()

        # If a value was not stored, its entry in the list `kept` is the list itself.
        values = [(text_of(operand), value) for operand, value in zip(operands, kept or ()) if value is not kept]
        own, shared = frame.f_locals, frame.f_globals
        for name in names_read(test):
            if name in own:
                values.append((name, own[name]))
            elif name in shared:
                values.append((name, shared[name]))
        parts = [str(number)]
        for text, value in values[:VALUES_MAX]:
            told = shown(value)
            if told is not None and told != text:
                parts += [text[: 2 * CHARACTERS_MAX], told]
        if len(parts) > 1:
            send(b"V", "\0".join(part.replace("\0", "\\0") for part in parts).encode("utf-8", "replace"))

    def shown(value):
        # Returns the text of a value. Returns None for functions, classes, modules and texts with an address, because
        # these do not explain a failure.
        kind = type(value)
        if issubclass(kind, type) or kind in (type(sys), type(shown), type(len), type([].append)):
            return None
        try:
            told = bounded(value, 0) if kind in (str, bytes, int, float, bool, complex) else guarded(value)
        except BaseException:
            return None
        return None if " at 0x" in told else told[: 2 * CHARACTERS_MAX]

    def guarded(value):
        # Returns the text of a value whose class may be code of the script. Discards the output of this code. Limits
        # the time for all values together.
        import _signal

        class TooLong(BaseException):
            pass

        def stop(*_):
            raise TooLong

        nonlocal seconds_left
        timer, streams = _signal.ITIMER_REAL, (sys.stdout, sys.stderr)
        if seconds_left < SECONDS_MIN or _signal.getitimer(timer) != (0.0, 0.0):
            # Give up if no time is left, or if the script uses the timer.
            raise TooLong
        before = _signal.signal(_signal.SIGALRM, stop)
        try:
            sys.stdout = sys.stderr = None
            _signal.setitimer(timer, seconds_left)
            return bounded(value, 0)
        finally:
            seconds_left = _signal.setitimer(timer, 0)[0]
            _signal.signal(_signal.SIGALRM, before)
            sys.stdout, sys.stderr = streams

    # Converts to an exact `str`. A `__repr__` can return a subclass of `str`, whose methods are code of the script.
    exact = str.__str__

    def bounded(value, depth):
        kind = type(value)
        if kind in (str, bytes):
            return repr(value[: 2 * CHARACTERS_MAX])
        if kind is int and value.bit_length() > BITS_MAX:
            return "an integer of %d bits" % value.bit_length()
        plain = (list, tuple, set, frozenset, dict)
        if kind not in plain:
            # Do not format a large collection of another type, because the C code that formats it cannot be
            # interrupted.
            is_large = isinstance(value, plain + (bytearray,)) or kind.__module__ == "collections"
            if is_large and len(value) > ITEMS_MAX:
                return "%s of %d items" % (kind.__name__, len(value))
            return exact(repr(value))
        if not value:
            return repr(value)
        if depth == DEPTH_MAX:
            return "..."
        import itertools

        some = list(itertools.islice(value.items() if kind is dict else value, ITEMS_MAX))
        if kind is dict:
            some = ["%s: %s" % (bounded(key, depth + 1), bounded(item, depth + 1)) for key, item in some]
        else:
            some = [bounded(item, depth + 1) for item in some]
        if len(value) > ITEMS_MAX:
            some.append("... (%d items)" % len(value))
        some = ", ".join(some)
        if kind is list:
            return "[%s]" % some
        if kind is tuple:
            return "(%s,)" % some if len(value) == 1 else "(%s)" % some
        return "{%s}" % some if kind is not frozenset else "frozenset({%s})" % some

    return counted, ended_by, rehearse
