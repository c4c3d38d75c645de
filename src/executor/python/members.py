def members_of(error):
    # Returns the constructor, the methods and the attributes of the object of a QWED package that a script has used
    # wrongly, as bytes: a line with the object's name, and a line for each member. Returns None for other errors.
    import sys

    LINES_MAX, LINE_CHARS_MAX = 40, 400

    def is_own(name):
        top = name.split(".")[0] if type(name) is str else ""
        return top == "qwed" or top.startswith("qwed_")

    modules = {name: module for name, module in list(sys.modules.items()) if is_own(name)}
    if not modules or not isinstance(error, (AttributeError, ImportError, TypeError)):
        return None
    import difflib, enum, inspect, re

    def class_of(thing):
        return thing if inspect.isclass(thing) else type(thing)

    def own(thing):
        if inspect.ismodule(thing):
            return thing if is_own(thing.__name__) else None
        if inspect.isroutine(thing):
            return thing if is_own(thing.__module__) else None
        return class_of(thing) if is_own(class_of(thing).__module__) else None

    def named(path, trace):
        # Returns the class or function with a qualified name, such as DeadlineGuard.verify. A method counts as its class.
        # The script's own class with the same name comes first.
        while trace.tb_next is not None:
            trace = trace.tb_next
        first, *rest = path.split(".")
        for names in [trace.tb_frame.f_globals, *map(vars, modules.values())]:
            thing = names.get(first)
            if inspect.isclass(thing) or (inspect.isroutine(thing) and not rest):
                return thing
        return None

    def called(trace):
        # Returns the first object of a QWED package that was called before the error.
        while trace is not None:
            frame = trace.tb_frame
            if is_own(frame.f_globals.get("__name__")):
                name = frame.f_code.co_name
                return frame.f_locals.get("self", frame.f_locals.get("cls", frame.f_globals.get(name)))
            trace = trace.tb_next
        return None

    def wrongly_used():
        if isinstance(error, AttributeError):
            return getattr(error, "obj", None)
        if isinstance(error, ImportError):
            return modules.get(error.name)
        match = re.match(r"([A-Za-z_][\w.]*)\(\) |'(\w+)' object ", str(error))
        thing = named(match.group(1) or match.group(2), error.__traceback__) if match else None
        return called(error.__traceback__) if thing is None else thing

    def signature(thing, is_bound=True):
        parameters = inspect.signature(thing)
        if not is_bound:
            parameters = parameters.replace(parameters=list(parameters.parameters.values())[1:])
        # Without the quotes of annotations, the values of enumerations, the modules of classes, and addresses.
        quoted = re.compile(r"""(: |-> )(['"])(.*?)\2(?=[,)]| = |$)""")
        text = quoted.sub(lambda found: found.group(1) + found.group(3).strip("'\""), str(parameters))
        text = re.sub(r"<(\w+\.\w+): [^>]*>", r"\1", text)
        return re.sub(r" at 0x\w+|\btyping\.|\bqwed\w*\.(?:\w+\.)*", "", text)

    def member(kind, name):
        thing = inspect.getattr_static(kind, name)
        if isinstance(thing, (staticmethod, classmethod)):
            return name + signature(getattr(kind, name))
        if inspect.isfunction(thing):
            return name + signature(thing, is_bound=False)
        return name

    def public(names):
        return [name for name in dict.fromkeys(names) if not name.startswith("_")]

    def lines(thing):
        if inspect.ismodule(thing):
            return public(name for name in dir(thing) if own(getattr(thing, name)) is not None)
        if inspect.isroutine(thing):
            return [thing.__name__ + signature(thing)]
        # The members that the packages define, and not those of the frameworks that they use.
        bases = [base for base in thing.__mro__ if is_own(base.__module__)]
        fields = public(name for base in bases for name in vars(base).get("__annotations__", ()))
        names = public(name for base in bases for name in vars(base) if name not in fields)
        found = [] if issubclass(thing, enum.Enum) else [thing.__name__ + re.sub(" -> None$", "", signature(thing))]
        return found + [member(thing, name) for name in names] + fields

    thing = own(wrongly_used())
    if thing is None:
        return None
    found = lines(thing)
    wanted = getattr(error, "name", None) or getattr(error, "name_from", None)
    if len(found) > LINES_MAX and wanted:
        found = difflib.get_close_matches(wanted, found, LINES_MAX, 0)
    name = thing.__name__ if inspect.ismodule(thing) else "%s.%s" % (thing.__module__.split(".")[0], thing.__name__)
    return "\n".join(line[:LINE_CHARS_MAX] for line in [name, *found[:LINES_MAX]]).encode()
