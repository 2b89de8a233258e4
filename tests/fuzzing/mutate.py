"""Make odd texts: of example workflows by changing them as text and as YAML, of expressions by their grammar."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from random import Random

from cenote.analysis.expressions.functions import FUNCTIONS

VALUES = [
    *("", "~", "null", "true", "-1", "0", "1e999", "-.inf", ".nan", "0x" + "F" * 5000, "9" * 5000, "0o777", "1_000"),
    *("[]", "{}", "[[]]", "{a: 1}", "[1, [2, {b: [3]}]]", "''", '"\\u0000"', '"\\ud800"', '"\\x07"', "'..'", "'/'"),
    *("4GB", "-4GB", "1e400GB", "3h", "99999999999d", "04:00:00", "{dataset}", "{{}}", "$(id)", "`id`", "%s%n", "a b"),
    *("'a/../../b'", "'../x'", '"a\\nb"', "*a", "*missing", "&a 1", "&a [*a]", "!!int x", "!!float 1", "!!binary AA=="),
    *("!!python/object/apply:os.system [id]", "!x", "|\n  x", ">-\n  x", "? y", "<<", "default", "data", "hep.hist"),
    *(
        "Muon_pt > 20",
        "Muon_pt >",
        "9**9**9**9",
        "(" * 200,
        "x[" * 50,
        "é",
        "e\u0301",
        "\u202e",
        "\ufeff",
        "\U0001f40d",
    ),
]
"""To stand where a value stands."""
PIECES = [
    *(b"\0", b"\xff", b"\xef\xbb\xbf", b"\xed\xa0\x80", b"\xc3", b"\x85", b"\xe2\x80\xa8", b"\r", b"\t", b"\x1b[2J"),
    *(b"---\n", b"...\n", b"%YAML 1.2\n", b"%TAG ! tag:x,2000:\n", b"# ", b"'", b'"', b"{", b"}"),
    *(b"[", b"]", b": ", b"- "),
    *(b"&a ", b"*a", b"<<: *a\n", b"<<: [*a, *a]\n", b"? ", b"| ", b"> ", b"!", b"\n  ", b"\n"),
    *(b"[" * 150, b"{a: " * 150),
    b"x" * 100_000,
    b"a: &a [x]\n" + b"".join(b"%s: &%s [%s]\n" % (new, new, b", ".join([b"*" + old] * 9)) for old, new in [
        (b"a", b"b"), (b"b", b"c"), (b"c", b"d"), (b"d", b"e"), (b"e", b"f"), (b"f", b"g"), (b"g", b"h"), (b"h", b"i")
    ]),
]  # fmt: skip
"""To stand anywhere in a file."""
_VALUE = re.compile(rb"(?<=[:\-,\[{] )[^\n,\]}#]+")


def a_workflow(random: Random, examples: Sequence[bytes]) -> bytes:
    """One of the examples, changed in a few places."""
    text = random.choice(examples)
    for _ in range(random.choice((1, 1, 1, 2, 2, 3, 8))):
        text = random.choice(_CHANGES)(random, text, examples)
    return text[:300_000]


Change = Callable[[Random, bytes, Sequence[bytes]], bytes]


def _value(random: Random, text: bytes, _: Sequence[bytes]) -> bytes:
    found = list(_VALUE.finditer(text))
    if not found:
        return text
    one = random.choice(found)
    return text[: one.start()] + random.choice(VALUES).encode("utf-8", "surrogatepass") + text[one.end() :]


def _other_value(random: Random, text: bytes, examples: Sequence[bytes]) -> bytes:
    found, others = list(_VALUE.finditer(text)), list(_VALUE.finditer(random.choice(examples)))
    if not found or not others:
        return text
    one = random.choice(found)
    return text[: one.start()] + random.choice(others)[0] + text[one.end() :]


def _piece(random: Random, text: bytes, _: Sequence[bytes]) -> bytes:
    at = random.randrange(len(text) + 1)
    return text[:at] + random.choice(PIECES) + text[at:]


def _cut(random: Random, text: bytes, _: Sequence[bytes]) -> bytes:
    at = random.randrange(len(text) + 1)
    return text[:at] + text[at + random.choice((1, 1, 2, 10, 100)) :]


def _flip(random: Random, text: bytes, _: Sequence[bytes]) -> bytes:
    at = random.randrange(len(text) + 1)
    return text[:at] + bytes([random.randrange(256)]) + text[at + 1 :]


def _lines(random: Random, text: bytes, examples: Sequence[bytes]) -> bytes:
    lines = text.split(b"\n")
    at, other = random.randrange(len(lines)), random.randrange(len(lines))
    match random.randrange(5):
        case 0:
            lines[at], lines[other] = lines[other], lines[at]
        case 1:
            lines.insert(at, lines[other])
        case 2:
            lines[at] = b" " * random.randrange(6) + lines[at].lstrip()
        case 3:
            del lines[at]
        case _:
            lines.insert(at, random.choice(random.choice(examples).split(b"\n")))
    return b"\n".join(lines)


_CHANGES: tuple[Change, ...] = (*4 * (_value, _other_value), _piece, _cut, _flip, *3 * (_lines,))

NAMES = ["flat", "whole", "narrow", "huge", "flag", "jagged", "nested", "text", "maybe", "nothing", "pi", "`odd name`"]
_SIGNS = [*"+-*/%<>&|^", "**", "//", "<<", ">>", "<=", ">=", "==", "!=", "&&", "||", " and ", " or "]
_NUMBERS = [
    "0",
    "1",
    "-1",
    "2",
    "63",
    "64",
    "0.5",
    "1e999",
    "1e-999",
    "0x" + "F" * 300,
    "9" * 25,
    "18446744073709551615",
]
_ODD = [
    *"()[],:=~!'\"`.?;\\\n\0{}@#$",
    "not ",
    "axis=1",
    "axis=0",
    "[:, 0]",
    "[:, -1:]",
    "if",
    "lambda",
    "\u0663",
    "²",
    "é",
]


def an_expression(random: Random) -> str:
    """By the grammar, mostly; then perhaps changed as text."""
    text = _expression(random, random.randrange(1, 6))
    if random.random() < 0.1:
        text = random.choice(_SIGNS).join([text] * random.choice((2, 30, 200)))
    for _ in range(random.choice((0, 0, 0, 1, 1, 2, 5))):
        at = random.randrange(len(text) + 1)
        text = text[:at] + random.choice((*_ODD, *_SIGNS, *NAMES, "")) + text[at + random.choice((0, 1)) :]
    return text


def _expression(random: Random, depth: int) -> str:
    if depth <= 0 or random.random() < 0.15:
        return random.choice((*NAMES, *NAMES, *_NUMBERS, "'a'"))
    inner = [_expression(random, depth - 1) for _ in range(3)]
    match random.randrange(9):
        case 0 | 1 | 2:
            return f"{inner[0]}{random.choice(_SIGNS)}{inner[1]}"
        case 3:
            return f"({inner[0]})"
        case 4 | 5:
            name = random.choice(list(FUNCTIONS))
            option = random.choice(["", "", "", ", axis=1", ", axis=-1"])
            return f"{name}({', '.join(inner[: random.choice((0, 1, 1, 1, 2, 2, 3))])}{option})"
        case 6:
            return f"{random.choice(('-', '+', '~', '!', 'not '))}{inner[0]}"
        case 7:
            return f"{inner[0]}[{inner[1]}]"
        case _:
            return f"{inner[0]}[:, {random.choice(('0', '-1', ':2', '1:', '0, 0', '99', ':'))}]"
