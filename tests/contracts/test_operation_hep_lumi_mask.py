"""The operation `hep.lumi_mask`, which needs a list of good runs."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, ClassVar

import awkward as ak
import numpy as np
import pytest

from cenote.analysis.expressions.problems import EvaluationError
from cenote.analysis.operations.hep.lumi_mask import LumiMask
from cenote.analysis.operations.support.events import Events
from cenote.common.errors import CenoteError
from cenote.language.plugins import resources
from cenote.testing.contracts import OperationContract
from cenote.testing.sample_events import sample_events

GOOD = {"3": [[1, 5], [8, 9], [5, 6]], "1": [[10, 4000000000]], "7": []}
LIST = "<LumiRangeCollection><LumiBlockCollection>{}</LumiBlockCollection></LumiRangeCollection>"
NO_END = LIST.format('<Run>1</Run><LBRange Start="1"/>')


class TestLumiMask(OperationContract):
    plugin = LumiMask
    cases: ClassVar[Any] = ({"file": "golden.json", "run": "runs", "lumi": "lumis", "output": "good"},)

    def events(self) -> Events:
        random = np.random.default_rng(5)
        run, lumi = random.integers(0, 5, 400).astype(np.uint32), random.integers(0, 14, 400).astype(np.uint32)
        return sample_events(400).with_columns({"run": run, "luminosityBlock": lumi, "runs": run, "lumis": lumi})

    @pytest.fixture(autouse=True)
    def a_list_beside_the_workflow(self, tmp_path: Path) -> Iterator[Path]:
        file = tmp_path / "golden.json"
        file.write_text(json.dumps(GOOD))
        resources.serve(resources.describe([file]), str(tmp_path))
        yield file
        resources.serve((), "")

    def test_events_are_kept_whose_section_is_in_a_range(self) -> None:
        events = self.events()
        expected = [
            any(first <= lumi <= last for first, last in GOOD.get(str(run), ()))
            for run, lumi in zip(events["run"].tolist(), events["luminosityBlock"].tolist(), strict=True)
        ]
        assert 0 < sum(expected) < 400
        flagged = LumiMask(file="golden.json", output="good").for_stage("s").run(events).events
        assert flagged["good"].tolist() == expected
        kept = LumiMask(file="golden.json").for_stage("s").run(events).events
        assert kept["run"].tolist() == events["run"][np.array(expected)].tolist()

    def test_a_missing_run_is_said_in_words(self) -> None:
        events = self.events()
        some = ak.mask(events["run"], events["run"] != events["run"][0])
        with pytest.raises(EvaluationError, match=r"column 'run' is missing for .* of 400 events"):
            LumiMask(file="golden.json").for_stage("s").run(events.with_columns({"run": some}))

    def test_a_list_in_xml_says_the_same(self, a_list_beside_the_workflow: Path) -> None:
        collections = "".join(
            f'<LumiBlockCollection><Run PrescaleRangeStart="1">{run}</Run>'
            + "".join(f'<LBRange Start="{first}" End="{last}"/>' for first, last in ranges)
            + "</LumiBlockCollection>"
            for run, ranges in GOOD.items()
        )
        flagged = LumiMask(file="golden.json", output="good").for_stage("s")
        in_json = flagged.run(self.events()).events["good"].tolist()
        a_list_beside_the_workflow.write_text(
            '<?xml version="1.0"?>\n<!DOCTYPE LumiRangeCollection SYSTEM "http://nowhere.invalid/list.dtd">\n'
            f"<LumiRangeCollection><NamedLumiRange><Name>all</Name><Version>2.1</Version>{collections}"
            "</NamedLumiRange></LumiRangeCollection>"
        )
        assert 0 < sum(in_json) < 400
        assert flagged.run(self.events()).events["good"].tolist() == in_json

    @pytest.mark.parametrize("text", ['{"1": [1, 2]}', "<LumiRangeCollection>", "<Other/>", "runs", NO_END])
    def test_something_else_than_a_list_is_said_while_planning(
        self, a_list_beside_the_workflow: Path, text: str
    ) -> None:
        a_list_beside_the_workflow.write_text(text)
        with pytest.raises(CenoteError, match="is not a list of good runs"):
            LumiMask(file="g").check_files({"g": a_list_beside_the_workflow})
