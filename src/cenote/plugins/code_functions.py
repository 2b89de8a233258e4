"""Take Python code apart into its functions, so that a change can be named by the one that it was made in."""

from __future__ import annotations

import ast
import hashlib
from collections.abc import Iterator

from cenote.plugins.imports import without_texts

REST = ""
"""What stands outside functions and classes."""
CLASS = "class "
"""How the name of a class begins, which stands for all of it but its methods."""


def functions_of(source: bytes) -> dict[str, tuple[str, int]]:
    """Function, `Class.method`, `class Class` and the rest of the module (`""`) → digest of what it says, and its line.

    Comments, formatting and docstrings count for none of them. What is no Python is all rest.
    """
    try:
        module = without_texts(ast.parse(source))
    except (SyntaxError, ValueError):
        return {REST: (_digest(source), 1)}
    found: dict[str, tuple[list[str], int]] = {REST: ([], 1)}
    for name, node in _parts(module):
        said, _ = found.setdefault(name, ([], getattr(node, "lineno", 1)))
        said.append(ast.dump(node))
    return {
        name: (_digest("\n".join(said).encode(errors="surrogatepass")), line) for name, (said, line) in found.items()
    }


def _parts(module: ast.Module) -> Iterator[tuple[str, ast.AST]]:
    for node in module.body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node.name, node
        elif isinstance(node, ast.ClassDef):
            methods = [one for one in node.body if isinstance(one, ast.FunctionDef | ast.AsyncFunctionDef)]
            node.body = [one for one in node.body if one not in methods]
            yield f"{CLASS}{node.name}", node
            for method in methods:
                yield f"{node.name}.{method.name}", method
        else:
            yield REST, node


def _digest(content: bytes) -> str:
    return hashlib.blake2b(content, digest_size=8).hexdigest()
