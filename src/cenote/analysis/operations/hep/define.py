"""The operation `hep.define`: new columns from expressions and reductions."""

from __future__ import annotations

from typing import ClassVar

from cenote.analysis.operations.define import Define


class HepDefine(Define):
    """Adds columns, in order: `variables: [{name, expr}, {name, reduce: {op, over}}]`."""

    example: ClassVar[str] = """
    - id: Variables
      op: hep.define
      params:
        variables:
          - {name: MET, expr: "sqrt(MET_px**2 + MET_py**2)"}
          - {name: nHardMuon, reduce: {op: count_nonzero, over: "Muon_pt > 25"}, dtype: int32}
    """
