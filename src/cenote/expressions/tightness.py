"""How tightly the signs of expressions bind: as physicists mean it, not as Python has it."""

from __future__ import annotations

NOT = 25
COMPARISON = 30
SIGNED = 60
"""`-x`, `+x` and `~x`."""
POWER = "**"
"""The only sign whose right side goes first."""
BINARY = {
    **dict.fromkeys(("or", "||", "|"), 10),
    "^": 15,
    **dict.fromkeys(("and", "&&", "&"), 20),
    **dict.fromkeys(("<<", ">>"), 35),
    **dict.fromkeys(("+", "-"), 40),
    **dict.fromkeys(("*", "/", "//", "%"), 50),
    POWER: 70,
}
ALONE = 100
"""Names, calls and whatever else needs no parentheses."""
