"""State what a study is: a workflow, code and tables beside it, and the files of its datasets; and write it down."""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

Flow = dict[str, Any]

CODE = {
    "ops.py": """
{comment}
import json
import awkward as ak
import numpy as np
from cenote import operation, resource
from helper import factor

SLOPE = {slope}

@operation("own.score", reads=lambda params: [params.column], adds=lambda params: [params.out])
def score(events, *, column: str, out: str, by: float = {default}):
    {docstring}
    return {{out: events[column] * (factor() + SLOPE) {operator} by}}

@operation("own.table", reads=["MET_pt"], adds=lambda params: [params.out])
def table(events, *, out: str):
    return {{out: events["MET_pt"] * json.loads(resource("table.json").read_text())["scale"]}}

@operation("own.passes", reads=lambda params: [params.column], filter=True)
def passes(events, *, column: str, above: float = {default}):
    return np.asarray(events[column]) > above

@operation("own.total", reads=lambda params: [params.column], product="total", merge=sum)
def total(events, *, column: str):
    return float(np.sum(events[column])) * SLOPE

@operation("own.squares", reads=lambda params: [params.column], product="total", merge=sum)
def squares(events, *, column: str):
    return float(np.sum(events[column] ** 2))

@operation("own.mean", reads=lambda params: [params.column], scope="run", product="mean")
def mean(events, *, column: str):
    return float(np.sum(events[column]) / max(1, len(events)))

@operation("own.spread", reads=lambda params: [params.column], scope="dataset", product="spread")
def spread(events, *, column: str):
    return float(np.std(events[column])) if len(events) else 0.0

@operation("own.centred", reads=lambda params: [params.column], adds=lambda params: [params.out])
def centred(events, *, column: str, out: str, stage: str):
    return {{out: events[column] - events.product(stage)}}
""",
    "wide.py": """
import numpy as np
from cenote import operation

@operation("own.width", reads=["MET_pt"], product="width", merge=sum)
def width(events):
    return float(np.std(events["MET_pt"]))
""",
    "helper.py": """
{comment}
def unused():
    return {unused}

def factor():
    {docstring}
    return {factor}
""",
    "looks.py": """
from cenote import operation

@operation("own.looks", reads=["MET_pt"], adds=lambda params: [params.out])
def looks(events, *, out: str):
    known = events.dataset.metadata.get("xsec", 1.0) + len(events.datasets) * {looked}
    return {{out: events["MET_pt"] * known * events.constants.get("LUMI", 1.0)}}
""",
    "sinks.py": """
from typing import Any, ClassVar
from pathlib import Path
import numpy as np
from cenote.analysis.sinks.interface import Sink

class Lines(Sink):
    \"\"\"Writes sums.\"\"\"
    cenote_plugin: ClassVar[tuple[str, str]] = ("sink", "own.lines")
    suffix: ClassVar[str] = ".csv"
    example: ClassVar[str] = "- {{id: A, op: filter, params: {{expr: x}}, write: {{kind: own.lines}}}}"

    def write(self, events: Any, path: Path) -> None:
        flat = [name for name in sorted(events.names) if getattr(events[name], "ndim", 1) == 1]
        sums = [f"{{name}},{{float(np.sum(np.asarray(events[name], dtype=float))) * {written}}}" for name in flat]
        path.write_text("\\n".join([str(events.size), *sums]))
""",
    "more.py": """
from typing import Any, ClassVar
from cenote.analysis.modifiers.interface import Effect, Modifier
from cenote.analysis.sources.root_tree import RootTreeSource
from dataclasses import replace

class Noise(Modifier):
    \"\"\"Changes columns.\"\"\"
    cenote_plugin: ClassVar[tuple[str, str]] = ("modifier", "own.noise")
    effect: ClassVar[Effect] = Effect.CHANGES
    example: ClassVar[str] = "- {{id: A, op: filter, params: {{expr: x}}, execution: {{modifiers: [own.noise]}}}}"
    by: float = 1.0

    def around(self, run: Any, events: Any, call: Any) -> Any:
        result = run(events)
        noise = self.by * {noise} + ord(call.dataset[0]) % 10 * 3
        changed = {{name: result.events[name] + noise for name in call.adds}}
        return replace(result, events=result.events.with_columns(changed))

class Scaled(RootTreeSource):
    \"\"\"Reads other numbers.\"\"\"
    cenote_plugin: ClassVar[tuple[str, str]] = ("source", "own.scaled")
    example: ClassVar[str] = "sources: {{events: {{kind: own.scaled}}}}"
    times: float = 1.0

    def read(self, url: str, columns: Any, start: int, stop: int) -> Any:
        found = super().read(url, columns, start, stop)
        return {{name: column * self.times * {scaled} for name, column in found.items()}}

class Halved(Scaled):
    \"\"\"Reads half of them.\"\"\"
    cenote_plugin: ClassVar[tuple[str, str]] = ("source", "own.halved")

    def read(self, url: str, columns: Any, start: int, stop: int) -> Any:
        return {{name: column / 2 for name, column in super().read(url, columns, start, stop).items()}}
""",
}
"""File → its text with gaps."""
GAPS: Mapping[str, Any] = {
    "comment": "# a comment",
    "docstring": '"""Says what it does."""',
    "slope": 1.5,
    "default": 2.0,
    "operator": "+",
    "factor": 2,
    "unused": 1,
    "looked": 1,
    "written": 1,
    "noise": 1,
    "scaled": 1,
}
FREE_GAPS = ("comment", "docstring")
"""Those on which no number depends."""
FUNCTION = """
{bent_comment}
def bent(x):
    return x * {bend} + 1
"""


@dataclass(frozen=True)
class Study:
    """All that its results depend on."""

    flow: Flow
    gaps: Mapping[str, Any] = field(default_factory=lambda: dict(GAPS))
    bend: float = 0.5
    table: Mapping[str, float] = field(default_factory=lambda: {"scale": 1.25, "unused": 1.0})
    lines: Mapping[int, float] = field(default_factory=lambda: {0: 0.5, 1: 1.5, 2: 2.5, 3: 3.5})
    """Of a table that is joined: number of muons → value."""
    data: Mapping[str, Path] = field(default_factory=dict)
    """File of a dataset → the file that it is a copy of."""
    touched: frozenset[str] = frozenset()
    """Files of datasets that are copied again."""
    software: Mapping[str, str] = field(default_factory=dict)
    """Package → the version that it seems to have."""

    def write(self, folder: Path) -> None:
        """Write what is not there as it is to be."""
        folder.mkdir(exist_ok=True)
        texts = {name: text.format(**self.gaps) for name, text in CODE.items()}
        texts["flow.yaml"] = json.dumps(self.flow, indent=1)
        texts["table.json"] = json.dumps(self.table)
        texts["lines.csv"] = "\n".join(["number,line", *(f"{key},{value}" for key, value in self.lines.items())])
        for name, text in texts.items():
            file = folder / name
            if not file.exists() or file.read_text() != text:
                file.write_text(text)
        (folder / "lib").mkdir(exist_ok=True)
        noted = folder / "copied.json"
        before: dict[str, str] = json.loads(noted.read_text()) if noted.exists() else {}
        for name in before.keys() - self.data.keys():
            (folder / name).unlink()
        for name, origin in self.data.items():
            if name in self.touched:
                shutil.copyfile(origin, folder / name)
            elif before.get(name) != str(origin):
                shutil.copy2(origin, folder / name)
        noted.write_text(json.dumps({name: str(origin) for name, origin in self.data.items()}))

    @property
    def function(self) -> str:
        """The text of the module of a function for expressions."""
        return FUNCTION.format(bend=self.bend, bent_comment=self.gaps["comment"])

    @property
    def stages(self) -> list[Flow]:
        """Those of the workflow."""
        found: list[Flow] = self.flow["analysis"]["stages"]
        return found

    @property
    def datasets(self) -> list[Flow]:
        """Those of the workflow."""
        found: list[Flow] = self.flow["data"]["datasets"]
        return found
