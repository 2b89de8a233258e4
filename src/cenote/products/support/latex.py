"""Write text so that LaTeX prints it as it is, and compiles whatever a user wrote."""

from __future__ import annotations

import re

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
