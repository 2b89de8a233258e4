"""Read YAML 1.2, keep where every key and value was written, and say what is wrong with it.

The parser is PyYAML's (the C one where it was built); what plain text means is decided here, by the core schema of
YAML 1.2: `04:00:00`, `yes` and `on` are text, `1e5` is a number.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import yaml

from cenote.common import errors
from cenote.common.errors import Place, Problem
from cenote.common.text import did_you_mean, nearest
from cenote.common.values import dataclass
from cenote.language.systematics import Origin

# State in plain words why a text is not YAML, and where.


_HINTS = {
    "mapping values are not allowed": "a value that holds ': ' needs quotes, or a line above is not finished",
    "could not find expected ':'": "a key is written as 'key: value', with a space after the colon",
    "did not find expected key": "keys of one mapping begin in the same column",
    "did not find expected '-' indicator": "items of one list begin in the same column",
    "expected <block end>": "keys of one mapping begin in the same column",
    "did not find expected ',' or": "a bracket is not closed, or a comma is missing",
    "did not find expected node content": "a bracket is not closed, or two commas follow each other",
    "cannot start any token": "put text that begins with this character in quotes",
    "did not find expected whitespace or line break": "put text that begins with '!' in quotes",
    "unexpected end of stream": "a quote or a bracket is not closed",
}


def syntax_problem(problem: yaml.MarkedYAMLError, text: str, file: str | None) -> Problem:
    """The parser's complaint, with a hint; a tab used as indentation is called so."""
    mark = problem.problem_mark or problem.context_mark
    line = mark.line if mark else 0
    tab = _tab_in_indentation(text, line)
    if tab:
        place = Place(file, *tab) if file else None
        return Problem(errors.BAD_YAML, "a tab is used as indentation", place=place, hint="YAML wants spaces here")
    what = problem.problem or "this cannot be read"
    hint = next((hint for part, hint in _HINTS.items() if part in what), None)
    place = Place(file, line + 1, (mark.column if mark else 0) + 1) if file else None
    begun = problem.context_mark
    since = f", begun in line {begun.line + 1}" if begun and begun.line != line else ""
    details = (f"{problem.context}{since}",) if problem.context else ()
    return Problem(errors.BAD_YAML, f"not YAML: {what}", place=place, details=details, hint=hint)


def _tab_in_indentation(text: str, last_line: int) -> tuple[int, int] | None:
    """Line and column of a tab before the first character of the line where reading stopped, or of the one before."""
    lines = text.splitlines()
    for number in range(min(last_line, len(lines) - 1), max(last_line - 2, -1), -1):
        line = lines[number]
        indentation = line[: len(line) - len(line.lstrip())]
        if "\t" in indentation and line.strip():
            return number + 1, indentation.index("\t") + 1
    return None


_UNPRINTABLE = "[^\t\n\r\x20-\x7e\x85\xa0-\ud7ff\ue000-\ufefe\uff00-\ufffd\U00010000-\U0010ffff]"


def character_problem(text: str, file: str | None) -> Problem:
    """The first character that no YAML file may hold."""
    match = re.search(_UNPRINTABLE, text)
    position = match.start() if match else 0
    line, column = text.count("\n", 0, position) + 1, position - text.rfind("\n", 0, position)
    place = Place(file, line, column) if file else None
    character = f" (U+{ord(match.group()):04X})" if match else ""
    return Problem(errors.BAD_YAML, f"a character that YAML does not allow{character}", place=place)


DEEPEST = 100
"""Levels of nesting: a workflow needs ten; the limit keeps hostile files from exhausting the stack."""
MOST_VALUES = 2_000_000
"""Values of one document after aliases were filled in."""
LARGEST_FILE = 64 * 2**20

Content = None | bool | int | float | str | dict[str, "Located"] | list["Located"]


@dataclass(frozen=True, slots=True)
class Located:
    """A value of a YAML document, and where it came from. Nothing changes it: an edit makes a new one."""

    value: Content
    layer: str
    place: Place | None = None
    key_place: Place | None = None
    """Of the key this value stands under; None in a list."""

    @property
    def mapping(self) -> Mapping[str, Located]:
        """The entries of a mapping; nothing for any other value."""
        return self.value if isinstance(self.value, dict) else {}

    @property
    def items(self) -> list[Located]:
        """The items of a list; nothing for any other value."""
        return self.value if isinstance(self.value, list) else []

    @property
    def text(self) -> str | None:
        """The value if it is text."""
        return self.value if isinstance(self.value, str) else None

    @property
    def origin(self) -> Origin:
        """Which layer gave it, and where."""
        return Origin(self.layer, self.place)

    def get(self, *keys: str) -> Located | None:
        """What stands under these keys, one inside the other; None when one of them is missing."""
        found: Located | None = self
        for key in keys:
            found = found.mapping.get(key) if found is not None else None
        return found

    def plain(self) -> Any:  # Any: what YAML can hold
        """The bare value, without places."""
        value = self.value
        if isinstance(value, dict):
            return {key: child.plain() for key, child in value.items()}
        if isinstance(value, list):
            return [child.plain() for child in value]
        return value

    def holding(self, value: Content) -> Located:
        """At the same place, another value."""
        return replace(self, value=value)

    def without(self, *keys: str) -> Located:
        """A mapping without these keys."""
        return self.holding({key: child for key, child in self.mapping.items() if key not in keys})


@dataclass(frozen=True)
class Parsed:
    """What reading gave: as much of the document as could be read, and what is wrong with it."""

    root: Located | None
    problems: tuple[Problem, ...] = ()


def read_yaml(path: Path, *, layer: str | None = None, content: bytes | None = None) -> Parsed:
    """Read a file that must hold one mapping. `content` is what it would hold."""
    name = str(path)
    try:
        text = _decoded(_content_of(path, name) if content is None else content, name)
    except errors.CenoteError as problem:
        return Parsed(None, problem.problems)
    parsed = parse_yaml(text, file=name, layer=layer or name)
    if parsed.root is not None and not isinstance(parsed.root.value, dict):
        return Parsed(None, (*parsed.problems, _not_a_mapping(parsed.root, name)))
    return parsed


def parse_yaml(text: str, *, file: str | None, layer: str) -> Parsed:
    """Parse one document of any kind; without a file its values have no places."""
    composer = _Composer(text, file, layer)
    try:
        root = composer.document()
    except errors.CenoteError as stopped:
        return Parsed(None, (*composer.problems, *stopped.problems))
    return Parsed(root, tuple(composer.problems))


def _content_of(path: Path, name: str) -> bytes:
    """As much of a file as tells whether it can be read: of a data file the beginning is enough."""
    try:
        with path.open("rb") as file:
            head = file.read(4096)
            return head if b"\0" in head else head + file.read(LARGEST_FILE)
    except IsADirectoryError:
        raise errors.error(errors.MISSING_FILE, f"{name} is a folder, not a file") from None
    except FileNotFoundError:
        raise errors.error(errors.MISSING_FILE, f"{name} does not exist", hint=_neighbour(path)) from None
    except (OSError, ValueError) as problem:
        raise errors.error(errors.MISSING_FILE, f"{name} cannot be read: {problem}") from None


def _decoded(content: bytes, name: str) -> str:
    start = Place(name, 1, 1)
    if b"\0" in content[:4096]:
        raise errors.error(errors.BAD_YAML, f"{name} is not a text file", place=start)
    if len(content) > LARGEST_FILE:
        raise errors.error(errors.BAD_YAML, f"{name} is larger than {LARGEST_FILE >> 20} MiB", place=start)
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as problem:
        before = content[: problem.start]
        line, column = before.count(b"\n") + 1, problem.start - before.rfind(b"\n")
        raise errors.error(
            errors.BAD_YAML, f"{name} is not UTF-8 text", place=Place(name, line, column), hint="save it as UTF-8"
        ) from None


def _neighbour(path: Path) -> str | None:
    try:
        others = {other.stem: other.name for other in path.parent.iterdir() if other.suffix in (".yaml", ".yml")}
    except OSError:
        return None
    match = nearest(path.stem, others)
    return f"did you mean '{others[match]}'?" if match else None


def _not_a_mapping(root: Located, name: str) -> Problem:
    if root.value is None:
        return Problem(
            errors.BAD_YAML, f"{name} is empty", place=root.place, hint="`cenote init` writes one to start from"
        )
    found = "a list" if isinstance(root.value, list) else "a single value"
    return Problem(errors.BAD_YAML, f"{name} must contain keys with values, but contains {found}", place=root.place)


_LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_STANDARD = "tag:yaml.org,2002:"


class _Composer:
    """Turns parser events into located values."""

    def __init__(self, text: str, file: str | None, layer: str) -> None:
        self.problems: list[Problem] = []
        self._text = text
        self._file = file
        self._layer = layer
        self._events: Iterator[Any] = yaml.parse(text, Loader=_LOADER)
        self._anchors: dict[str, tuple[Located, int]] = {}
        self._values = 0

    def document(self) -> Located:
        self._next()  # the start of the stream
        start = self._next()
        if isinstance(start, yaml.StreamEndEvent):
            return Located(None, self._layer, self._place(start) and Place(self._file or "", 1, 1))
        root = self._node(self._next(), depth=0)
        self._next()  # the end of the document
        extra = self._next()
        if not isinstance(extra, yaml.StreamEndEvent):
            raise self._stop(
                "a second YAML document begins here", extra, hint="a file holds one document: remove the '---'"
            )
        return root

    def _next(self) -> Any:
        try:
            return next(self._events)
        except yaml.MarkedYAMLError as problem:
            raise errors.CenoteError(syntax_problem(problem, self._text, self._file)) from None
        except yaml.YAMLError:
            raise errors.CenoteError(character_problem(self._text, self._file)) from None

    def _place(self, event: Any) -> Place | None:
        mark = event.start_mark
        return Place(self._file, mark.line + 1, mark.column + 1) if self._file else None

    def _stop(self, message: str, event: Any, hint: str | None = None) -> errors.CenoteError:
        return errors.CenoteError(Problem(errors.BAD_YAML, message, place=self._place(event), hint=hint))

    def _node(self, event: Any, depth: int, key: Place | None = None) -> Located:
        if isinstance(event, yaml.AliasEvent):
            return self._alias(event, key)
        if depth > DEEPEST:
            raise self._stop(f"nested more than {DEEPEST} levels deep", event)
        before = self._values
        self._values += 1
        value: Content
        if isinstance(event, yaml.ScalarEvent):
            value = self._scalar(event)
        elif isinstance(event, yaml.SequenceStartEvent):
            value = self._list(depth)
        else:
            value = self._mapping(depth)
        node = Located(value, self._layer, self._place(event), key)
        if event.anchor:
            self._anchors[event.anchor] = (node, self._values - before)
        return node

    def _alias(self, event: Any, key: Place | None) -> Located:
        if event.anchor not in self._anchors:
            hint = did_you_mean(event.anchor, self._anchors) or "put text that begins with '*' in quotes"
            raise self._stop(f"no anchor '&{event.anchor}' precedes this alias", event, hint=hint)
        node, size = self._anchors[event.anchor]
        self._values += size
        if self._values > MOST_VALUES:
            raise self._stop("aliases make this document too large", event)
        return replace(node, key_place=key)

    def _list(self, depth: int) -> list[Located]:
        items = []
        while not isinstance(event := self._next(), yaml.SequenceEndEvent):
            items.append(self._node(event, depth + 1))
        return items

    def _mapping(self, depth: int) -> dict[str, Located]:
        entries: dict[str, Located] = {}
        merged: list[Located] = []
        while not isinstance(event := self._next(), yaml.MappingEndEvent):
            if not isinstance(event, yaml.ScalarEvent):
                raise self._stop("a key must be text", event)
            place = self._place(event)
            child = self._node(self._next(), depth + 1, place)
            if event.value == "<<" and event.implicit[0]:
                merged += child.items or [child]
            elif event.value in entries:
                self.problems.append(_duplicate(event.value, place, entries[event.value].key_place))
            else:
                entries[event.value] = child
        for other in merged:
            if not isinstance(other.value, dict):
                raise self._stop("'<<' merges mappings, but this is not a mapping", event)
            for key, child in other.value.items():
                entries.setdefault(key, child)
        return entries

    def _scalar(self, event: Any) -> Content:
        tag = event.tag
        if tag is None:
            return plain_value(event.value) if event.implicit[0] else str(event.value)
        short = tag.removeprefix(_STANDARD)
        if short in ("str", "!"):
            return str(event.value)
        value = plain_value(event.value)
        if short == _TAG_OF.get(type(value)):
            return value
        if short == "float" and type(value) is int:
            return float(value)
        raise self._stop(
            f"'{event.value}' cannot be read as '{tag}'", event, hint="remove the tag, or put text in quotes"
        )


_TAG_OF = {int: "int", float: "float", bool: "bool", type(None): "null"}


def _duplicate(key: str, place: Place | None, first: Place | None) -> Problem:
    where = (f"first at {first}",) if first else ()
    return Problem(errors.DUPLICATE_KEY, f"the key '{key}' appears twice in this mapping", place=place, details=where)


_WORDS: dict[str, Content] = {
    **dict.fromkeys(("", "~", "null", "Null", "NULL")),
    **dict.fromkeys(("true", "True", "TRUE"), True),
    **dict.fromkeys(("false", "False", "FALSE"), False),
    **dict.fromkeys((".inf", ".Inf", ".INF", "+.inf", "+.Inf", "+.INF"), float("inf")),
    **dict.fromkeys(("-.inf", "-.Inf", "-.INF"), float("-inf")),
    **dict.fromkeys((".nan", ".NaN", ".NAN"), float("nan")),
}
_NUMBER_START = frozenset("+-.0123456789")
# Python writes numbers of at most 4,300 digits: longer ones stay text, which messages can show.
_WHOLE = re.compile(r"[-+]?[0-9]{1,4000}")
_OTHER_BASE = re.compile(r"0o[0-7]{1,4000}|0x[0-9a-fA-F]{1,3000}")
_FRACTION = re.compile(r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?")


def plain_value(text: str) -> Content:
    """What unquoted text means by the core schema of YAML 1.2."""
    if text in _WORDS:
        return _WORDS[text]
    if text[0] not in _NUMBER_START:
        return text
    if _WHOLE.fullmatch(text):
        return int(text)
    if _FRACTION.fullmatch(text):
        return float(text)
    if _OTHER_BASE.fullmatch(text):
        return int(text, 0)
    return text
