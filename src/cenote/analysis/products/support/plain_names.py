"""Write names and texts so that ROOT, programs for statistics and LaTeX take them."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import count

_WORDS = {"+": "plus", "-": "minus", "*": "star", ".": "dot", "/": "over", "'": "prime", "~": "tilde", "!": "not"}


def plain_names(names: Iterable[Sequence[str]]) -> dict[tuple[str, ...], str]:
    """Names in parts → plain ones, the parts joined by `_`, other characters as `_`.

    Those that would fall together have their characters in words (`W+` becomes `Wplus`) or, where that is not enough,
    a number at the end; one that is plain as it is keeps its name.
    """
    usual = {tuple(parts): _plain(parts) for parts in names}
    many = Counter(usual.values())
    found = {parts: name for parts, name in usual.items() if many[name] == 1 or name == "_".join(parts)}
    if len(set(found.values())) < len(found):  # `a_b` and `c`, `a` and `b_c`
        found = {parts: name for parts, name in usual.items() if many[name] == 1}
    taken = set(found.values())
    for parts in usual:
        if parts not in found:
            found[parts] = next(name for name in _candidates(parts) if name not in taken)
            taken.add(found[parts])
    return {parts: found[parts] for parts in usual}


def _plain(parts: Sequence[str]) -> str:
    return "_".join(re.sub(r"\W", "_", part) for part in parts)


def _candidates(parts: Sequence[str]) -> Iterator[str]:
    words = ["".join(_WORDS.get(letter, letter) for letter in part) for part in parts]
    yield _plain(words)
    yield from (f"{_plain(words)}_{number}" for number in count(2))


# Write text so that LaTeX prints it as it is, and compiles whatever a user wrote.


_OWN = {
    "\\": r"\textbackslash{}",
    "&": r"\&",
    "%": r"\%",
    "$": r"\$",
    "#": r"\#",
    "_": r"\_",
    "{": r"\{",
    "}": r"\}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    "|": r"\textbar{}",
    '"': "''",
    "[": "{[}",
    "*": "{*}",
}
"""Characters that mean something to LaTeX (some only at the start of a row), or that its fonts print as others."""
_GREEK = "alpha beta gamma delta epsilon zeta eta theta iota kappa lambda mu nu xi o pi rho varsigma sigma tau upsilon"
_GREEK_NAMES = [*_GREEK.split(), "phi", "chi", "psi", "omega"]
_COMMANDS = (
    "Γ Gamma Δ Delta Θ Theta Λ Lambda Ξ Xi Π Pi Σ Sigma Φ Phi Ψ Psi Ω Omega µ mu → rightarrow ← leftarrow "
    "≥ geq ≤ leq ≠ neq ≈ approx × times · cdot ± pm √ surd ∞ infty ∧ wedge ∨ vee ¬ neg"
)
"""Characters, each with the name of its command."""
_SYMBOLS = {
    **{chr(0x3B1 + place): rf"$\{name}$" for place, name in enumerate(_GREEK_NAMES) if name != "o"},
    **{letter: rf"$\{name}$" for letter, name in zip(_COMMANDS.split()[::2], _COMMANDS.split()[1::2], strict=True)},
    "–": "--",
    "—": "---",
    "…": r"\ldots{}",
    "’": "'",
    "‘": "`",
    "“": "``",
    "”": "''",
    "\N{NO-BREAK SPACE}": "~",
}
_ACCENTED = re.compile(r"[À-ÖØ-öø-ž]")
"""Letters that LaTeX composes in every encoding of fonts."""
_MATH = re.compile(r"\$([^$]+)\$")


def in_latex(text: str) -> str:
    """The text for LaTeX; formulas between dollars stay formulas, as in the labels of plots."""
    if text.count("$") % 2 or not all(_is_formula(formula) for formula in _MATH.findall(text)):
        return _escaped(text)
    parts = _MATH.split(text)
    return "".join(f"${part}$" if place % 2 else _escaped(part) for place, part in enumerate(parts))


def _is_formula(text: str) -> bool:
    """Whether it can stand between dollars without breaking the table around it."""
    depth = 0
    for character in text:
        depth += {"{": 1, "}": -1}.get(character, 0)
        if depth < 0:
            return False
    return depth == 0 and text.isascii() and not re.search(r"[%#&~\n]|\\$|\\\\", text)


def _escaped(text: str) -> str:
    return "".join(_character(character) for character in " ".join(text.split()))


def _character(character: str) -> str:
    if character in _OWN:
        return _OWN[character]
    if character in _SYMBOLS:
        return _SYMBOLS[character]
    if character.isascii() and character.isprintable():
        return character
    return character if _ACCENTED.match(character) else rf"\texttt{{U+{ord(character):04X}}}"
