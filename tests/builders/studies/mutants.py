"""Make mutants of what results are known by: each leaves out one thing that goes into it, wherever it stands."""

from __future__ import annotations

import ast
import inspect
import types
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from types import ModuleType
from typing import Any
from unittest.mock import patch

import cenote.planning.build
import cenote.planning.fingerprint
import cenote.planning.identity
import cenote.planning.tasks.tasks
from cenote.planning.plan import RUN, Partition, is_skim

PLACES: Mapping[str, tuple[ModuleType, tuple[str, ...]]] = {
    "identity": (
        cenote.planning.identity,
        ("code_of", "sinks_of", "of", "own_of", "source", "_reading", "through", "made_of", "_add", "_made",
         "_incoming", "_column", "_after", "_from"),
    ),
    "fingerprint": (cenote.planning.fingerprint, ("partition_digest", "_file_of")),
    "tasks": (cenote.planning.tasks.tasks, ("add_run", "add_merge", "_used")),
}  # fmt: skip
"""Module → its functions in which the ingredients stand."""
_LEFT_OUT = "left_out_by_a_mutant"


@dataclass
class Asked:
    """What a plan was made from, as far as it decides what results are known by."""

    lineages: tuple[Any, ...] = ()
    partitions: Sequence[Partition] = ()


@contextmanager
def asking() -> Iterator[Asked]:
    """Note what the plan is made from that is made meanwhile."""
    asked = Asked()

    def lineages(*given: Any) -> Any:
        asked.lineages = given
        return cenote.planning.identity.lineages(*given)

    def lay_out(segments: Any, partitions: Sequence[Partition], *more: Any) -> Any:
        asked.partitions = partitions
        return cenote.planning.tasks.tasks.lay_out(segments, partitions, *more)

    with patch.multiple(cenote.planning.build, lineages=lineages, lay_out=lay_out):
        yield asked


@dataclass(frozen=True)
class Mutant:
    """A module with one ingredient left out."""

    name: str
    """Module, function, and the ingredient as it is written there."""
    module: ModuleType

    @property
    def written(self) -> str:
        """The function, and the ingredient."""
        return self.name.partition(": ")[2]

    def ids(self, asked: Asked) -> dict[str, bytes]:
        """By what each product of a plan would be known, and events that leave tasks."""
        place = self.name.split(":")[0]
        lineages = self.module.lineages if place == "identity" else cenote.planning.identity.lineages
        lay_out = self.module.lay_out if place == "tasks" else cenote.planning.tasks.tasks.lay_out
        digest = (
            self.module.partition_digest if place == "fingerprint" else cenote.planning.fingerprint.partition_digest
        )
        workflow, segments, resolved, flow, datasets = asked.lineages
        with patch("cenote.planning.tasks.tasks.partition_digest", digest):
            found, _ = lineages(workflow, segments, resolved, flow, datasets)
            table, _, ids, results = lay_out(segments, asked.partitions, datasets, resolved, flow, found)
        known = {name: ids.of(table, task)[name] for name, task in results.items()}
        for task in range(len(table)):
            segment = segments[int(table.segment[task])]
            if table.kind[task] != RUN or segment.scope != "partition":
                continue
            part = asked.partitions[int(table.partition[task])]
            leaving = {f"{stage} leaves": one for stage, one in ids.leaving_of(segment, task).items()}
            written = {name: one for name, one in ids.of(table, task).items() if is_skim(name)}
            for name, one in (leaving | written).items():
                known[f"{name} {part.dataset} {part.content} {part.start}"] = one
        return known


def left_out(value: Any) -> Any:  # Any: whatever goes into an identity
    """Nothing, of the same type as an ingredient."""
    if isinstance(value, bytes):
        return bytes(len(value))
    if isinstance(value, str):
        return ""
    if isinstance(value, Mapping):
        return {}
    return () if hasattr(value, "__iter__") else None


UNCHANGED = Mutant("", cenote.planning.identity)


def mutants() -> Iterator[Mutant]:
    """One for each ingredient."""
    for place, (module, functions) in PLACES.items():
        source = inspect.getsource(module)
        count = len(list(_ingredients(ast.parse(source), functions)))
        for number in range(count):
            tree = ast.parse(source)
            function, holder, field, index = list(_ingredients(tree, functions))[number]
            found = getattr(holder, field)[index] if index is not None else getattr(holder, field)
            written = ast.unparse(found)
            inner = found.value if isinstance(found, ast.Starred | ast.FormattedValue) else found
            called = ast.Call(ast.Name(_LEFT_OUT, ast.Load()), [inner], [])
            if isinstance(found, ast.Starred | ast.FormattedValue):
                found.value = called
            elif index is None:
                setattr(holder, field, called)
            else:
                getattr(holder, field)[index] = called
            yield Mutant(f"{place}: {function}: {written}", _module(module, ast.fix_missing_locations(tree)))


def _module(like: ModuleType, tree: ast.Module) -> ModuleType:
    made = types.ModuleType(like.__name__)
    made.__dict__.update({_LEFT_OUT: left_out, "__file__": like.__file__})
    exec(compile(tree, f"<mutant of {like.__name__}>", "exec"), made.__dict__)
    return made


def _ingredients(tree: ast.Module, functions: tuple[str, ...]) -> Iterator[tuple[str, Any, str, int | None]]:
    """Elements of lists and parts of texts, in these functions: (function, what holds it, field, place there)."""
    for function in ast.walk(tree):
        if not isinstance(function, ast.FunctionDef) or function.name not in functions:
            continue
        for node in _nodes(function):
            if isinstance(node, ast.List) and isinstance(node.ctx, ast.Load):
                for index, element in enumerate(node.elts):
                    if not isinstance(element, ast.Constant):
                        yield function.name, node, "elts", index
            if isinstance(node, ast.JoinedStr):
                for index, part in enumerate(node.values):
                    if isinstance(part, ast.FormattedValue):
                        yield function.name, node, "values", index
            if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "combined":
                for index, part in enumerate(node.args):
                    if not isinstance(part, ast.List | ast.Constant | ast.JoinedStr):
                        yield function.name, node, "args", index


def _nodes(tree: ast.AST) -> Iterator[ast.AST]:
    """All below, without lists that only take out what is there twice, and the names of tasks in their run."""
    for node in ast.iter_child_nodes(tree):
        name = node.targets[0] if isinstance(node, ast.Assign) else getattr(node, "func", None)
        if ast.unparse(name) not in ("dict.fromkeys", "key") if name is not None else True:
            yield node
            yield from _nodes(node)
