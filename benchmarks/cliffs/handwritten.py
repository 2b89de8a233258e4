"""Large histograms filled by hand, to compare with: `python handwritten.py CASE SIZE OUT.json FILE…`."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import hist
import numpy as np
import uproot

STEP = 100_000


def histograms(case: str, size: int) -> list[Any]:
    """As the workflow of the case has them; the last one counts."""
    if case == "bins":
        return [hist.Hist.new.Reg(size, 0, 200, name="x").Int64()]
    if case == "stages":
        return [hist.Hist.new.Reg(100, 0, 200, name="x").Int64() for _ in range(size)]
    labels = [f"w{number}" for number in range(size)]
    return [hist.Hist.new.Reg(100, 0, 200, name="x").StrCat(labels, name="variation").Weight()]


def fill(case: str, size: int, filled: list[Any], events: Any) -> None:
    """One chunk."""
    if case != "variations":
        for one in filled:
            one.fill(events["MET_pt"])
        return
    for number in range(size):
        weight = events["genWeight"] * np.float32(1 + number / 1024)
        filled[0].fill(events["MET_pt"], f"w{number}", weight=weight)


def main() -> None:
    """Fill them and write the sums of the last one down."""
    case, size, out, files = sys.argv[1], int(sys.argv[2]), Path(sys.argv[3]), sys.argv[4:]
    filled = histograms(case, size)
    for file in files:
        with uproot.open(file) as opened:
            for events in opened["Events"].iterate(["MET_pt", "genWeight"], step_size=STEP, library="np"):
                fill(case, size, filled, events)
    sums = filled[-1].values(flow=True)
    sums = sums[:, :-1].sum(axis=0) if sums.ndim > 1 else sums  # without what has no label
    out.write_text(json.dumps([float(value) for value in sums]))


if __name__ == "__main__":
    main()
