"""The house style, asked of one module by reading its source."""

import ast
from pathlib import Path


def tree(name):
    return ast.parse(Path("smallsteps", f"{name}.py").read_text())


def is_exported(name):
    """The module says `__all__ = ["name"]`."""
    for node in tree(name).body:
        if isinstance(node, ast.Assign) and [t.id for t in node.targets if isinstance(t, ast.Name)] == ["__all__"]:
            return ast.literal_eval(node.value) == [name]
    return False


def is_described(name):
    """The function has a docstring of one line that ends with a period."""
    (function,) = [n for n in tree(name).body if isinstance(n, ast.FunctionDef) and n.name == name]
    text = ast.get_docstring(function) or ""
    return text.endswith(".") and "\n" not in text
