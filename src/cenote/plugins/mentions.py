"""Find words in people's own code: what is not named there is not looked at, unless its name is put together."""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterable, Iterator

from cenote.plugins.shipped import SourceFile

WORDS = ("dataset", "datasets", "constants")
"""What code says if it looks beyond columns: names of attributes of events."""
_OURS = "cenote"
_SCOPE = "scope"
"""What a declaration says by this name looks at nothing: `scope="dataset"`."""


def mentioned(words: Collection[str], sources: Iterable[SourceFile]) -> tuple[str, ...]:
    """Those of the words that sources have as the name of an attribute, or in a text. All of them where that cannot be
    told: in compiled modules, and beside functions from within this package, which may look for them."""
    names = [name for source in sources for name in _names_in(source)]
    if None in names:
        return tuple(words)
    return tuple(word for word in words if any(word in name for name in names if name is not None))


def _names_in(source: SourceFile) -> Iterator[str | None]:
    """The name of every attribute that is looked at, and every text; None for what may hold any. Variables, arguments
    and modules, which may well be called `constants`, are none."""
    if source.binary:
        yield None
        return
    try:
        tree = ast.parse(source.source)
    except (SyntaxError, ValueError):
        yield None
        return
    standing_alone = {node.value for node in ast.walk(tree) if isinstance(node, ast.Expr)}  # docstrings among them
    standing_alone |= {node.value for node in ast.walk(tree) if isinstance(node, ast.keyword) and node.arg == _SCOPE}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import | ast.ImportFrom) and _is_within_ours(node):
            yield None
        if isinstance(node, ast.Attribute):
            yield node.attr
        elif isinstance(node, ast.MatchClass):
            yield from node.kwd_attrs
        elif isinstance(node, ast.Constant) and isinstance(node.value, str | bytes) and node not in standing_alone:
            yield node.value if isinstance(node.value, str) else node.value.decode("latin-1")


def _is_within_ours(node: ast.Import | ast.ImportFrom) -> bool:
    """Whether it imports from a module of this package; what the package itself offers looks at nothing."""
    modules = [node.module or ""] if isinstance(node, ast.ImportFrom) else [alias.name for alias in node.names]
    return any(module.startswith(f"{_OURS}.") for module in modules)
