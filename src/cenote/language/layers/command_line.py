"""Apply what the command line or a script sets: `--set execution.pools.gpu.workers=10`."""

from __future__ import annotations

import re

from cenote import errors
from cenote.language.layers.merge import merge, without_rivals
from cenote.language.origins import KeyPath
from cenote.language.yaml.source import Content, Located, parse_yaml

LAYER = "command line"
_STEP = re.compile(r'"([^"]+)"|([^."]+)')


def parse_assignment(assignment: str) -> tuple[tuple[str, ...], Located]:
    """`a.b.c=VALUE` as the keys and the located value. A key that holds a dot is put in double quotes."""
    target, equals, written = assignment.partition("=")
    steps = tuple(quoted or plain for quoted, plain in _STEP.findall(target.strip()))
    if not equals or not steps:
        raise errors.error(
            errors.USAGE,
            f"cannot set {assignment}: this is not KEY=VALUE",
            hint="for example execution.backend=local",
        )
    parsed = parse_yaml(written, file=None, layer=LAYER)
    if parsed.root is None:
        why = "; ".join(problem.message for problem in parsed.problems)
        raise errors.error(errors.USAGE, f"cannot set {assignment}: the value is {why}")
    return steps, parsed.root


def assign(root: Located, steps: tuple[str, ...], value: Located, *, path: KeyPath = ()) -> Located:
    """The document with this value set: mappings are merged into, everything else is replaced."""
    if not steps:
        return merge(root, value, path=path)
    step, rest = steps[0], steps[1:]
    if isinstance(root.value, list):
        index = _index(root.value, step, path)
        items = list(root.value)
        items[index] = assign(items[index], rest, value, path=(*path, index))
        return root.holding(items)
    if root.value is not None and not isinstance(root.value, dict):
        raise errors.error(
            errors.USAGE, f"cannot set {_dotted((*path, *steps))}: '{_dotted(path)}' holds a single value, not keys"
        )
    entries: dict[str, Located] = root.value or {}
    child = assign(entries.get(step) or Located(None, LAYER), rest, value, path=(*path, step))
    kept: dict[str, Located] = without_rivals(entries, {step: child}, path)
    new: Content = {**kept, step: child}
    return root.holding(new)


def _index(items: list[Located], step: str, path: KeyPath) -> int:
    """The position of a list's item: by number, or by the `id` or `name` it carries."""
    if step.isdecimal() and int(step) < len(items):
        return int(step)
    names = [_name_of(item) for item in items]
    if step in names:
        return names.index(step)
    known = [name for name in names if name]
    message = f"cannot set {_dotted((*path, step))}: there is no '{step}' in {_dotted(path)}"
    raise errors.CenoteError(errors.unknown_name(errors.USAGE, message, step, known, what="there are"))


def _name_of(item: Located) -> str | None:
    named = item.get("id") or item.get("name")
    return named.text if named else None


def _dotted(path: KeyPath) -> str:
    return ".".join(str(step) for step in path)
