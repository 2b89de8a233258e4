"""The same analysis as a coffea processor, for whoever has coffea installed."""

from __future__ import annotations

import argparse
import warnings
from pathlib import Path
from typing import Any

import awkward as ak
import handwritten
import hist
from coffea import processor  # type: ignore[import-not-found]  # only where it is measured
from coffea.nanoevents import BaseSchema  # type: ignore[import-not-found]  # only where it is measured

STEP = 100_000


class Analysis(processor.ProcessorABC):  # type: ignore[misc]  # coffea publishes no types
    """The histograms and the cutflow of one chunk; coffea adds them up."""

    def process(self, events: Any) -> dict[str, Any]:
        """One chunk."""
        histograms = {
            "met": hist.Hist.new.Reg(100, 0, 200, name="met").Weight(),
            "jet_pt": hist.Hist.new.Reg(100, 15, 215, name="pt").Weight(),
            "mass": hist.Hist.new.Reg(120, 0, 240, name="mass").Weight(),
        }
        cutflow: dict[str, list[float]] = {label: [0, 0.0] for label in ("all", "trigger", "two muons")}
        arrays = ak.zip({name: events[name] for name in handwritten.COLUMNS}, depth_limit=1)
        handwritten.analyse(arrays, histograms, cutflow)
        counted = {label: {"n": n, "sumw": sumw} for label, (n, sumw) in cutflow.items()}
        return {"histograms": histograms, "cutflow": counted}

    def postprocess(self, accumulator: Any) -> Any:
        """Nothing is left to do."""
        return accumulator


def main() -> None:
    """`python coffea_version.py OUT.json FILE…`."""
    parser = argparse.ArgumentParser(description="The analysis as a coffea processor.")
    parser.add_argument("out", type=Path)
    parser.add_argument("files", type=Path, nargs="+")
    chosen = parser.parse_args()
    warnings.simplefilter("ignore")
    runner = processor.Runner(
        executor=processor.IterativeExecutor(status=False), schema=BaseSchema, chunksize=STEP, savemetrics=False
    )
    result = runner({"mc": {"files": {str(file): "Events" for file in chosen.files}}}, processor_instance=Analysis())
    cutflow = {label: [found["n"], found["sumw"]] for label, found in result["cutflow"].items()}
    handwritten.save(chosen.out, result["histograms"], cutflow)


if __name__ == "__main__":
    main()
