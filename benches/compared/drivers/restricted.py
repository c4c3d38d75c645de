"""Runs each script with RestrictedPython inside this process, with the guards that its documentation names."""

from __future__ import annotations

import builtins
import operator
from typing import Any

from serve import Result, Runner, argument, serve

IN_PLACE = {"+=": operator.iadd, "-=": operator.isub, "*=": operator.imul, "/=": operator.itruediv,
            "//=": operator.ifloordiv, "%=": operator.imod, "**=": operator.ipow, "&=": operator.iand,
            "|=": operator.ior, "^=": operator.ixor, "<<=": operator.ilshift, ">>=": operator.irshift}


class Printed:
    """Collects the output of all scopes of a script in one list."""

    def __init__(self, parts: list[str]) -> None:
        self.parts = parts

    def __call__(self, _getattr: Any = None) -> Printed:
        return self

    def write(self, text: str) -> None:
        self.parts.append(text)

    def _call_print(self, *values: Any, **options: Any) -> None:
        options["file"] = self
        print(*values, **options)


class Restricted(Runner):
    """The guards of RestrictedPython, and the modules that scripts may import."""

    keeps_state = True

    def __init__(self, modules: list[str]) -> None:
        import RestrictedPython
        from RestrictedPython import Eval, Guards, utility_builtins

        self.compile = RestrictedPython.compile_restricted
        self.modules = set(modules)
        self.builtins = {**RestrictedPython.safe_builtins, **utility_builtins,
                         "__import__": self.guarded_import, "range": range, "sorted": sorted,
                         "sum": sum, "min": min, "max": max, "all": all, "any": any,
                         "list": list, "dict": dict, "set": set, "enumerate": enumerate, "map": map,
                         "filter": filter, "reversed": reversed, "iter": iter, "next": next}
        self.guards = {"_getattr_": Guards.safer_getattr, "_getitem_": Eval.default_guarded_getitem,
                       "_getiter_": Eval.default_guarded_getiter, "_write_": Guards.full_write_guard,
                       "_iter_unpack_sequence_": Guards.guarded_iter_unpack_sequence,
                       "_unpack_sequence_": Guards.guarded_unpack_sequence,
                       "_apply_": lambda function, *values, **named: function(*values, **named),
                       "_inplacevar_": lambda operation, value, other: IN_PLACE[operation](value, other),
                       "__metaclass__": type, "__name__": "__main__"}
        self.kept: dict[str, Any] = {}

    def guarded_import(self, name: str, *arguments: Any) -> Any:
        if name.partition(".")[0] not in self.modules:
            raise ImportError(f"{name} is not allowed")
        return builtins.__import__(name, *arguments)

    def run(self, code: str, timeout_s: float, keep: bool) -> Result:
        parts: list[str] = []
        variables = self.kept if keep else {}
        variables |= self.guards | {"__builtins__": self.builtins, "_print_": Printed(parts)}
        try:
            exec(self.compile(code, "<script>", "exec"), variables)
        except BaseException as error:  # A script may raise SystemExit.
            return Result(False, "".join(parts), f"{type(error).__name__}: {error}")
        return Result(True, "".join(parts))

    def reset(self) -> None:
        self.kept = {}


serve(lambda: Restricted(**argument()))
