"""Check a part of the document against its model and say what is wrong in the user's words, with places."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from typing import Any, TypeVar, get_args, get_origin

from pydantic import TypeAdapter, ValidationError
from pydantic_core import ErrorDetails

from cenote.common import errors
from cenote.common.text import did_you_mean, meant_as_truth, nearest
from cenote.common.values import dataclass
from cenote.language.checks.findings import Findings
from cenote.language.plugins.settings import Described, fields_of, is_described
from cenote.language.yaml.source import Located

# Find expressions that YAML cut at their commas: `{x: where(a > 2, 1, 0)}` holds the keys `x`, `1` and `0)`.


_MOST = 30
"""Commas of one expression that are looked at."""


@dataclass(frozen=True, eq=False)
class CutExpression:
    """An expression of which only the beginning stands where it was meant to."""

    within: Located
    """The mapping or list that has the pieces."""
    first: Located
    text: str
    """As it was meant."""

    def concerns(self, node: Located) -> bool:
        """Whether a value is one of the pieces, or what holds them."""
        return node is self.within or any(node is one for one in (*self.within.mapping.values(), *self.within.items))


def cut_expressions(node: Located) -> Iterator[CutExpression]:
    """Those in a part of the document."""
    waiting = [node]
    while waiting:
        holder = waiting.pop()
        pieces = _pieces(holder)
        for number, (child, _) in enumerate(pieces):
            if child.text is not None and _open(child.text) > 0:
                rest = _up_to_the_end(child.text, [text for _, text in pieces[number + 1 : number + 1 + _MOST]])
                if rest is not None:
                    yield CutExpression(holder, child, ", ".join([child.text, *rest]))
        waiting += [child for child, _ in reversed(pieces)]


def _pieces(node: Located) -> list[tuple[Located, str | None]]:
    """What a mapping or a list holds, with the text that it would be the rest of; None where it cannot be one."""
    if isinstance(node.value, dict):
        return [(child, str(key) if child.value is None else None) for key, child in node.mapping.items()]
    return [(child, None if isinstance(child.value, dict | list) else str(child.value)) for child in node.items]


def _up_to_the_end(text: str, following: list[str | None]) -> list[str] | None:
    """What closes all parentheses; None where nothing does."""
    found: list[str] = []
    left = _open(text)
    for piece in following:
        if piece is None:
            return None
        found.append(piece)
        left += _open(piece)
        if left == 0:
            return found
    return None


def _open(text: str) -> int:
    return text.count("(") - text.count(")")


Model = TypeVar("Model")

_TRUTHS = ("bool_type", "bool_parsing")
_WORDS = {
    "string_type": "should be text",
    **dict.fromkeys(("int_type", "int_parsing", "int_from_float"), "should be a whole number"),
    **dict.fromkeys(("float_type", "float_parsing"), "should be a number"),
    "finite_number": "should be a finite number",
    **dict.fromkeys(_TRUTHS, "should be true or false"),
    **dict.fromkeys(("list_type", "tuple_type", "set_type"), "should be a list"),
    **dict.fromkeys(("dict_type", "mapping_type", "model_type"), "should be a mapping"),
    **dict.fromkeys(("dataclass_type", "model_attributes_type"), "should be a mapping"),
    "none_required": "should be empty",
    "greater_than": "should be more than {gt:.15g}",
    "greater_than_equal": "should be at least {ge:.15g}",
    "less_than": "should be less than {lt:.15g}",
    "less_than_equal": "should be at most {le:.15g}",
    "literal_error": "should be {expected}",
    "enum": "should be {expected}",
    "too_short": "should have at least {min_length} item(s)",
    "too_long": "should have at most {max_length} item(s)",
    "string_too_short": "should not be empty",
}
"""pydantic's names of errors in the words of somebody who writes YAML."""
_KINDS = {"bad_expression": errors.BAD_EXPRESSION}
"""Errors of validation that are not just bad values."""
_SAME = {"unexpected_keyword_argument": "extra_forbidden"}
"""What pydantic calls by another name where the keys are those of a dataclass."""
_ABOUT_LENGTH = ("too_short", "too_long", "string_too_short")


def validated(model: type[Model], node: Located, what: str, findings: Findings) -> Model | None:
    """The part as a model, or None and everything that is wrong with it. `what` names the part in messages."""
    kind: Any = model  # Any: mypy takes a class for something that cannot be hashed
    try:
        found: Model = _adapter(kind).validate_python(node.plain())
    except ValidationError as problem:
        report_errors(problem.errors(include_url=False), model, node, what, findings)
        return None
    return found


@cache
def _adapter(model: Any) -> TypeAdapter[Any]:  # Any: a class of the language
    return TypeAdapter(model)


def report_errors(
    found: Iterable[ErrorDetails], model: Described, node: Located, what: str, findings: Findings
) -> None:
    """Note every error of a validation at the place of the value that it complains about."""
    cut = list(cut_expressions(node))
    for one in cut:
        words = f"{what}: '{one.first.text}' ends at a comma, which separates entries within {{…}} and […]"
        findings.report(errors.BAD_EXPRESSION, words, one.first, hint=f'write it in quotes: "{one.text}"')
    everything = [_Complaint(error, model, node) for error in found]
    complaints = [complaint for complaint in everything if not any(one.concerns(complaint.node) for one in cut)]
    unknown = [c for c in complaints if c.type == "extra_forbidden"]
    for complaint in _without_consequences(_best_branches(complaints)):
        if complaint.type == "extra_forbidden":
            complaint.report_unknown_key(what, findings)
        elif complaint.type == "missing":
            misspelt = any(u.node is complaint.node and u.meant == complaint.key for u in unknown)
            if not misspelt:
                findings.missing(complaint.key, complaint.within(what), complaint.node)
        else:
            complaint.report_value(what, findings)


class _Complaint:
    """One error of pydantic with its position resolved in the document."""

    def __init__(self, error: ErrorDetails, model: Described, root: Located) -> None:
        self.type = _SAME.get(error["type"], error["type"])
        self.error = error
        loc = error["loc"]
        own_key = self.type in ("missing", "extra_forbidden")
        self.key = str(loc[-1]) if own_key and loc else ""
        steps = loc[:-1] if own_key else loc
        self.node, self.path, self.branch = _walk(root, steps)
        self.known = known_keys(model, steps) if own_key else []
        self.meant = nearest(self.key, self.known) if self.type == "extra_forbidden" else None

    def within(self, what: str) -> str:
        """The words for where it is: `'execution.resources' of stage 'A'`."""
        return f"'{_dotted(self.path)}' of {what}" if self.path else what

    def report_unknown_key(self, what: str, findings: Findings) -> None:
        entry = self.node.mapping.get(self.key, self.node)
        findings.report_unknown_key(self.key, entry, self.within(what), self.known)

    def report_value(self, what: str, findings: Findings) -> None:
        context: Mapping[str, Any] = self.error.get("ctx", {})
        template = _WORDS.get(self.type)
        words = template.format(**context) if template else self.error["msg"].removeprefix("Value error, ")
        if (template or self.type in ("name", "whole", "number")) and self.type not in _ABOUT_LENGTH:
            words = f"{words}, not {self._given()}"
        hint = _literal_hint(self.node, context) if self.type == "literal_error" else None
        if self.type in _TRUTHS and self.node.text:
            hint = meant_as_truth(self.node.text)
        kind = _KINDS.get(self.type, errors.BAD_VALUE)
        findings.report(kind, f"{self.within(what)}: {words}", self.node, hint=hint)

    def _given(self) -> str:
        """What was found wrong: where a short form was spelt out, that is a part of what stands there."""
        given = self.error["input"]
        part = isinstance(self.node.value, dict | list) and not isinstance(given, dict | list | tuple)
        return described(self.node.holding(given) if part else self.node)


def _walk(root: Located, steps: tuple[int | str, ...]) -> tuple[Located, list[str], tuple[str, int] | None]:
    """The value at a position, its path, and the first step that the document does not have.

    Such a step names a branch of a union; with it comes how deep in the document the union stands.
    """
    node = root
    path: list[str] = []
    branch: tuple[str, int] | None = None
    for step in steps:
        if isinstance(step, int):
            if isinstance(node.value, list) and step < len(node.value):
                node = node.value[step]
                path.append(str(step))
        elif step in node.mapping:
            node = node.mapping[step]
            path.append(step)
        elif branch is None:
            branch = (step, len(path))
    return node, path, branch


def _best_branches(complaints: list[_Complaint]) -> list[_Complaint]:
    """Of the alternatives of a union, only the one that comes closest: the one with the fewest complaints."""
    chosen = [c for c in complaints if c.branch is None]
    unions: dict[tuple[str, ...], dict[str, list[_Complaint]]] = {}
    for complaint in complaints:
        if complaint.branch is not None:
            name, depth = complaint.branch
            unions.setdefault(tuple(complaint.path[:depth]), {}).setdefault(name, []).append(complaint)
    for alternatives in unions.values():
        ranked = sorted(alternatives.values(), key=lambda found: (_wrong_form(found), len(found)))
        chosen += ranked[0]
    return chosen


def _without_consequences(complaints: list[_Complaint]) -> list[_Complaint]:
    """Without lists called too short only because their items are wrong."""
    paths = [complaint.path for complaint in complaints]
    return [
        complaint
        for complaint in complaints
        if complaint.type != "too_short"
        or not any(len(path) > len(complaint.path) and path[: len(complaint.path)] == complaint.path for path in paths)
    ]


def _wrong_form(found: list[_Complaint]) -> bool:
    """Whether the value is of another form than this alternative, and not just wrong somewhere inside."""
    return all(
        complaint.type.endswith("_type") and complaint.branch is not None and len(complaint.path) == complaint.branch[1]
        for complaint in found
    )


def known_keys(model: Described, steps: tuple[int | str, ...]) -> list[str]:
    """The keys that a model knows at a position within it."""
    annotation: Any = model
    for step in steps:
        annotation = _inside(annotation, step)
    models = _models_in(annotation)
    return [key for found in models[:1] for key in keys_of(found)]


def keys_of(model: Described) -> list[str]:
    """The keys of a model, as written in YAML."""
    keys = []
    for name, info in fields_of(model).items():
        alias = info.validation_alias
        choices = getattr(alias, "choices", None)
        keys += [str(choice) for choice in choices] if choices else [str(alias) if alias else name]
    return keys


def _inside(annotation: Any, step: int | str) -> Any:
    """The annotation of what stands under a key or an index."""
    if isinstance(step, str):
        for model in _models_in(annotation):
            for name, info in fields_of(model).items():
                if step in (name, *_aliases(info.validation_alias)):
                    return info.annotation
    return annotation


def _aliases(alias: Any) -> list[str]:
    return [str(choice) for choice in getattr(alias, "choices", [alias] if alias else [])]


def _models_in(annotation: Any) -> list[Described]:
    """The models that an annotation mentions: `dict[str, Pool] | None` mentions Pool."""
    if isinstance(annotation, type) and get_origin(annotation) is None:
        return [annotation] if is_described(annotation) else []
    return [model for argument in get_args(annotation) for model in _models_in(argument)]


def described(node: Located) -> str:
    """What stands there, short enough for a message."""
    value = node.value
    if isinstance(value, dict):
        return "a mapping"
    if isinstance(value, list):
        return "a list"
    if value is None:
        return "nothing"
    if isinstance(value, bool):
        return str(value).lower()
    shown = repr(value)
    return shown if len(shown) <= 60 else f"{shown[:57]}…"


def _literal_hint(node: Located, context: Mapping[str, Any]) -> str | None:
    choices = str(context.get("expected", "")).replace("'", "").replace(" or ", ", ").split(", ")
    return did_you_mean(node.text, choices) if node.text else None


def _dotted(path: list[str]) -> str:
    return ".".join(path)
