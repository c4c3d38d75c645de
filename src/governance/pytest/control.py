# The control: inverts the assertions of tests. A test that still passes checks nothing. The script contains common.py
# before this file.
import ast

OPPOSITES = {
    "assertEqual": "assertNotEqual", "assertTrue": "assertFalse", "assertIs": "assertIsNot", "assertIn": "assertNotIn",
    "assertIsNone": "assertIsNotNone", "assertIsInstance": "assertNotIsInstance", "assertRegex": "assertNotRegex",
    "assertAlmostEqual": "assertNotAlmostEqual", "assertLess": "assertGreaterEqual", "assertGreater": "assertLessEqual",
}
OPPOSITES.update({opposite: name for name, opposite in OPPOSITES.items()})


def other_constant(node):
    """Returns a literal with another value. Returns None if the expression is not a literal."""
    if isinstance(node, ast.Constant):
        value = node.value
        if isinstance(value, bool):
            return ast.Constant(not value)
        if isinstance(value, (int, float, complex)):
            return ast.Constant(value + 1)
        if isinstance(value, str):
            return ast.Constant(value + "~")
        if isinstance(value, bytes):
            return ast.Constant(value + b"~")
        return ast.Constant("~")
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        operand = other_constant(node.operand)
        return operand and ast.UnaryOp(node.op, operand)
    if isinstance(node, (ast.List, ast.Tuple, ast.Set)):
        items = [other_constant(item) for item in node.elts]
        if None in items:
            return None
        more = {} if isinstance(node, ast.Set) else {"ctx": ast.Load()}
        return type(node)(elts=items or [ast.Constant("~")], **more)
    if isinstance(node, ast.Dict):
        values = [other_constant(value) for value in node.values]
        if None in values or None in node.keys:
            return None
        if not values:
            return ast.Dict(keys=[ast.Constant("~")], values=[ast.Constant("~")])
        return ast.Dict(keys=node.keys, values=values)
    return None


class Turn(ast.NodeTransformer):
    """Replaces the literal in a comparison such as `f() == 4` by another literal. Negates all other assertions."""

    def visit_Assert(self, node):
        return ast.copy_location(ast.Assert(self.turned(node.test), node.msg), node)

    def turned(self, test):
        if isinstance(test, ast.Compare) and len(test.ops) == 1 and isinstance(test.ops[0], ast.Eq):
            left, right = test.left, test.comparators[0]
            other = other_constant(right)
            if other is not None:
                return ast.Compare(left, test.ops, [other])
            other = other_constant(left)
            if other is not None:
                return ast.Compare(other, test.ops, [right])
        return ast.UnaryOp(ast.Not(), test)

    def visit_Attribute(self, node):
        self.generic_visit(node)
        if isinstance(node.value, ast.Name) and node.value.id == "self":
            node.attr = OPPOSITES.get(node.attr, node.attr)
        return node


def turn_assertions_round():
    from _pytest.assertion import rewrite
    rewrite_asserts = rewrite.rewrite_asserts

    def rewrite_turned(tree, source, module_path=None, *rest):
        if not str(module_path).endswith("conftest.py"):
            ast.fix_missing_locations(Turn().visit(tree))
        return rewrite_asserts(tree, source, module_path, *rest)

    rewrite.rewrite_asserts = rewrite_turned
