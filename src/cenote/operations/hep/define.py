"""The operation `hep.define`: new columns from expressions and reductions."""

from __future__ import annotations

from cenote.operations.define import Define


class HepDefine(Define):
    """Adds columns, in order: `variables: [{name, expr}, {name, reduce: {op, over}}]`."""
