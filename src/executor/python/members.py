def members_of(error, source):
    # Describes the object of a QWED package that a script used wrongly. The result is bytes: a line with the object's
    # name and the number of its members, and a line for each constructor, method or attribute. Returns None if `error`
    # has another cause. Runs no code that the script could have defined before the object is known to belong to a QWED
    # package.
    import sys

    LINES_MAX, LINE_CHARS_MAX, VALUE_CHARS_MAX = 40, 400, 60
    SCRIPT = "<verification>"
    bases_of, names_of = type.__dict__["__mro__"].__get__, type.__dict__["__dict__"].__get__
    name_of = type.__dict__["__name__"].__get__

    class Sample:
        def method(self):
            pass

    method_type, function_types, module_type = type(Sample().method), (type(Sample.method), type(len)), type(sys)

    def is_own(name):
        top = name.split(".")[0] if type(name) is str else ""
        return top == "qwed" or top.startswith("qwed_")

    def is_class(thing):
        return type in bases_of(type(thing))

    def own(thing):
        # Returns the module, function or class of a QWED package that describes a thing.
        kind = type(thing)
        if kind is method_type:
            return own(thing.__self__)
        if kind is module_type:
            return thing if is_own(thing.__dict__.get("__name__")) else None
        if kind in function_types:
            if not is_own(thing.__module__):
                return None
            # A method belongs to its class.
            first = thing.__qualname__.split(".")[0]
            return thing if first == thing.__name__ else sys.modules[thing.__module__].__dict__.get(first)
        bases = bases_of(thing if is_class(thing) else kind)
        return next((base for base in bases if is_own(names_of(base).get("__module__"))), None)

    modules = [module for name, module in list(sys.modules.items()) if is_own(name) and type(module) is module_type]
    frames, trace = [], error.__traceback__
    while trace is not None:
        frames.append(trace.tb_frame)
        trace = trace.tb_next
    scopes = [scope for frame in frames if frame.f_code.co_filename == SCRIPT for scope in (frame.f_locals, frame.f_globals)]

    def only(name):
        # Returns the class or function of a QWED package with this name. Returns None if the name is not unique.
        if "class " + name in source or "def " + name in source:
            return None
        found = [module.__dict__[name] for module in modules if name in module.__dict__]
        found = {id(thing): thing for thing in found if is_class(thing) or type(thing) in function_types}
        return list(found.values())[0] if len(found) == 1 else None

    def called():
        # Returns the first object of a QWED package that was called before the error.
        for frame in frames:
            if is_own(frame.f_globals.get("__name__")):
                name = frame.f_code.co_name
                return frame.f_locals.get("self", frame.f_locals.get("cls", frame.f_globals.get(name)))
        return None

    def named_in(text):
        # Returns the object that the message of a TypeError names. The message starts with, for example,
        # `DeadlineGuard.verify() missing` or `'DeadlineResult' object is not`.
        name = text.split("'")[1] if text.startswith("'") and "' object " in text else ""
        if name:
            kinds = {type(value) for scope in scopes for value in scope.values() if name_of(type(value)) == name}
            return list(kinds)[0] if len(kinds) == 1 else None if kinds else only(name)
        name = text.split("() ")[0].split(".")[0]
        return known_as(name) if "() " in text and name.isidentifier() else None

    def known_as(name):
        # Search the variables of the script first.
        return next((scope[name] for scope in scopes if name in scope), None) or only(name)

    def wrongly_used():
        kind, text = type(error), error.args[0] if error.args and type(error.args[0]) is str else ""
        if kind is AttributeError:
            return getattr(error, "obj", None)
        if kind is ImportError:
            return sys.modules.get(error.name)
        if kind is TypeError:
            return named_in(text) if frames and frames[-1].f_code.co_filename == SCRIPT else called()
        if name_of(kind) == "ValidationError" and names_of(kind).get("__module__") == "pydantic_core._pydantic_core":
            return known_as(error.title)
        return None

    thing = own(wrongly_used()) if modules else None
    if thing is None:
        return None
    import difflib, enum, inspect, re

    class Text:
        def __init__(self, text):
            self.text = text

        def __repr__(self):
            return self.text

    def plain(text):
        # Removes addresses, and the modules of classes.
        return re.sub(r" at 0x\w+|\btyping\.|\bqwed\w*\.(?:\w+\.)*", "", text)

    def annotation_text(annotation):
        if hasattr(annotation, "__metadata__"):
            annotation = annotation.__origin__
        text = annotation if isinstance(annotation, str) else inspect.formatannotation(annotation)
        return Text(plain(text.strip("'\"")))

    def value_text(value):
        text = str(value) if isinstance(value, enum.Enum) else plain(repr(value))
        return Text(text if len(text) <= VALUE_CHARS_MAX else text[:VALUE_CHARS_MAX] + "...")

    def signature(thing, is_bound=True):
        try:
            full = inspect.signature(thing)
        except (TypeError, ValueError):
            return ""
        none = inspect.Parameter.empty
        parameters = [
            parameter.replace(
                annotation=none if parameter.annotation is none else annotation_text(parameter.annotation),
                default=none if parameter.default is none else value_text(parameter.default),
            )
            for parameter in list(full.parameters.values())[0 if is_bound else 1 :]
        ]
        returned = none if full.return_annotation is none else annotation_text(full.return_annotation)
        return str(full.replace(parameters=parameters, return_annotation=returned))

    def member(kind, name):
        thing = inspect.getattr_static(kind, name)
        if isinstance(thing, (staticmethod, classmethod)):
            return name + signature(getattr(kind, name))
        return name + signature(thing, is_bound=False) if inspect.isfunction(thing) else name

    def public(names):
        # The prefix model_ belongs to pydantic.
        return [name for name in dict.fromkeys(names) if not name.startswith(("_", "model_"))]

    def members():
        if inspect.ismodule(thing):
            found = [name for name in public(dir(thing)) if own(getattr(thing, name)) is not None]
            # List classes and functions first, because scripts use them more often than modules.
            return sorted(found, key=lambda name: inspect.ismodule(getattr(thing, name)))
        if inspect.isroutine(thing):
            return [thing.__name__ + signature(thing)]
        # Use only members that the QWED packages define, and not members of the frameworks that they use.
        bases = [base for base in thing.__mro__ if is_own(base.__module__)]
        fields = public(name for base in bases for name in vars(base).get("__annotations__", ()))
        names = public(name for base in bases for name in vars(base) if name not in fields)
        found = [] if issubclass(thing, enum.Enum) else [thing.__name__ + re.sub(" -> None$", "", signature(thing))]
        return found + [member(thing, name) for name in names] + fields

    found = members()
    message = str(error)
    wanted = error.name if isinstance(error, AttributeError) else "".join(message.split("'")[1:2])
    if len(found) > LINES_MAX and wanted:
        by_name = {line.split("(")[0]: line for line in found}
        found = [by_name[name] for name in difflib.get_close_matches(wanted, by_name, len(by_name), 0)]
    name = thing.__name__ if inspect.ismodule(thing) else "%s.%s" % (thing.__module__.split(".")[0], thing.__qualname__)
    lines = [line if len(line) <= LINE_CHARS_MAX else line[:LINE_CHARS_MAX] + "..." for line in found[:LINES_MAX]]
    return "\n".join(["%s %d" % (name, len(found))] + lines).encode() if found else None
