"""Every mistake a new user makes is told with its place, what is there, what was probably meant, and an exit code."""

from __future__ import annotations

import json
import subprocess
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
import uproot

from ..conftest import Desk

DATA = "data: {datasets: [{name: d, files: [muons.root]}]}\n"
AXES = "axes: [{name: x, type: regular, source: MET_pt, bins: {nbins: 5, low: 0, high: 100}}]"
HIST = f"{{id: H, op: hep.hist, params: {{{AXES}}}}}"
STAGES = f"analysis: {{stages: [{HIST}]}}\n"
POOLS = "execution: {pools: {default: {}, gpu: {}}}\n"


@dataclass(frozen=True)
class Mistake:
    """What somebody typed, the exit code's family, and words of the answer."""

    name: str
    text: str
    code: int
    words: tuple[str, ...]


def a_file(name: str) -> str:
    return f'data: {{datasets: [{{name: d, files: ["{name}"]}}]}}\n{STAGES}'


MISTAKES = [
    Mistake(
        "a key of the file",
        DATA + STAGES.replace("analysis", "analyis"),
        10,
        ("flow.yaml:2:1: there is no key 'analyis'", "keys: analysis, data", "did you mean 'analysis'?"),
    ),
    Mistake(
        "a key of a stage",
        DATA + POOLS + f"analysis:\n  stages:\n    - {HIST[:-1]},\n       execution: {{requires: gpu}}}}\n",
        10,
        ("flow.yaml:6:20: there is no key 'requires' in 'execution' of stage 'H'", "did you mean 'require'?"),
    ),
    Mistake(
        "an expression with commas and without quotes",
        DATA + "analysis: {stages: [{id: D, op: define, params: {x: where(MET_pt > 2, 1, 0)}}]}\n",
        10,
        ("flow.yaml:2:5", "'where(MET_pt > 2' ends at a comma", 'in quotes: "where(MET_pt > 2, 1, 0)"', "1 problem"),
    ),
    Mistake(
        "the same in a list",
        DATA + "analysis: {stages: [{id: S, op: filter, params: {selection: [max(MET_pt, 2) > 1]}}]}\n",
        10,
        ("'max(MET_pt' ends at a comma", 'in quotes: "max(MET_pt, 2) > 1"', "1 problem"),
    ),
    Mistake(
        "a cross-section with its unit",
        DATA.replace("name: d", "name: d, xsec: 830 pb")
        + STAGES.replace("params: {", "params: {weight: dataset_xsec, "),
        10,
        ("flow.yaml:2:", "'830 pb' of dataset 'd' is text, not a number", "write `xsec: 830`"),
    ),
    Mistake(
        "a cross-section with a comma",
        DATA.replace("name: d", 'name: d, xsec: "0,8"')
        + STAGES.replace("params: {", "params: {weight: dataset_xsec, "),
        10,
        ("flow.yaml:2:", "'0,8' of dataset 'd' is text, not a number", "write `xsec: 0.8`"),
    ),
    Mistake(
        "a selection that is a list",
        DATA + "analysis: {stages: [{id: S, op: filter, params: {selection: Muon_pt > 20}}]}\n",
        10,
        (
            "flow.yaml:2:61: stage 'S': 'Muon_pt > 20' gives a list per event",
            "a selection needs one true or false per event",
            "hint: use any(…) or all(…)",
        ),
    ),
    Mistake(
        "a selection that is a number",
        DATA + "analysis: {stages: [{id: S, op: filter, params: {selection: nMuon}}]}\n",
        10,
        ("flow.yaml:2:61: stage 'S': 'nMuon' gives numbers (", "hint: write '(nMuon) != 0'"),
    ),
    Mistake(
        "a selection that an earlier stage made a list",
        DATA
        + "analysis: {stages: [{id: D, op: define, params: {tight: Muon_pt > 20}},\n"
        + "  {id: S, op: hep.selection.cutflow, params: {selection: {All: [MET_pt > 1, tight]}}}]}\n",
        10,
        ("flow.yaml:3:77: stage 'S': 'tight' gives a list per event",),
    ),
    Mistake(
        "yes where a column may be named too",
        DATA + STAGES.replace("params: {", "params: {dataset_axis: yes, "),
        11,
        ("reads 'yes', which no file", "did you mean `true`?"),
    ),
    Mistake(
        "off for false",
        DATA
        + "analysis: {stages: [{id: C, op: hep.selection.cutflow, params: {emit_flags: Off, selection: [HLT]}}]}\n",
        10,
        ("flow.yaml:2:77:", "should be true or false, not 'Off'", "did you mean `false`?"),
    ),
    Mistake(
        "stages that are not indented",
        DATA + f"analysis:\nstages:\n- {HIST}\n",
        10,
        (
            "flow.yaml:3:1: there is no key 'stages' in a workflow",
            "it belongs under 'analysis': indent it",
            "1 problem",
        ),
    ),
    Mistake(
        "bits for bytes",
        DATA + STAGES + "execution: {pools: {default: {resources: {memory: 4Gb}}}}",
        10,
        ("flow.yaml:3:51:", "'4Gb'", "bits", "did you mean '4GB'?"),
    ),
    Mistake(
        "memory without a unit",
        DATA + STAGES + "execution: {pools: {default: {resources: {memory: 4}}}}",
        10,
        ("flow.yaml:3:51:", "4 has no unit: write 4GB or 4MB"),
    ),
    Mistake("a tab", "data:\n\tdatasets: []\n", 10, ("flow.yaml:2:1: a tab", "spaces")),
    Mistake("nothing", "", 10, ("flow.yaml:1:1: flow.yaml is empty", "cenote init")),
    Mistake("only a comment", "# later\n", 10, ("flow.yaml is empty",)),
    Mistake("a list", "- a\n", 10, ("flow.yaml:1:1:", "keys with values")),
    Mistake("an unclosed bracket", DATA + "analysis: {stages: [", 10, ("not YAML", "bracket is not closed")),
    Mistake(
        "an operation",
        DATA + "analysis: {stages: [{id: H, op: hep.hits}]}",
        12,
        ("flow.yaml:2:33: there is no operation 'hep.hits'", "did you mean 'hep.hist'?", "hep.align_schema"),
    ),
    Mistake(
        "an own operation without its file",
        DATA + "analysis: {stages: [{id: H, op: custom.mine}]}",
        12,
        ("there is no operation 'custom.mine'", "`plugins:`"),
    ),
    Mistake(
        "a parameter of an operation",
        DATA + STAGES.replace("axes:", "axis:"),
        10,
        ("flow.yaml:2:52: there is no key 'axis' in the params of stage 'H'", "did you mean 'axes'?"),
    ),
    Mistake(
        "a column",
        DATA + "analysis: {stages: [{id: S, op: hep.select, params: {selection: 'Muon_ptt > 3'}}]}",
        11,
        ("flow.yaml:2:65: stage 'S' reads 'Muon_ptt'", "columns here: EventWeight", "did you mean 'Muon_pt'?"),
    ),
    Mistake(
        "a pool",
        DATA + POOLS + STAGES.replace("op:", "execution: {pool: gpuu}, op:"),
        14,
        ("flow.yaml:3:", "there is no pool 'gpuu'", "default, gpu", "did you mean 'gpu'?"),
    ),
    Mistake(
        "a label",
        DATA + POOLS + STAGES.replace("op:", "execution: {require: gpus}, op:"),
        14,
        ("flow.yaml:3:", "no pool provides 'gpus', which stage 'H' requires", "did you mean 'gpu'?"),
    ),
    Mistake(
        "the same id twice",
        DATA + f"analysis: {{stages: [\n  {HIST},\n  {HIST}]}}",
        10,
        ("flow.yaml:4:", "two stages are named 'H'", "first at flow.yaml:3:"),
    ),
    Mistake(
        "a circle",
        DATA
        + "analysis: {stages: [{id: A, op: hep.select, needs: [B], params: {selection: 'MET_pt > 5'}},\n"
        + "  {id: B, op: hep.select, needs: [A], params: {selection: 'MET_pt > 5'}}]}",
        11,
        ("flow.yaml:2:", "stages need each other in a circle: A → B → A"),
    ),
    Mistake(
        "a type",
        DATA + STAGES + "execution: {pools: {default: {workers: many}}}",
        10,
        ("flow.yaml:3:40: 'workers' of pool 'default': should be a whole number, not 'many'",),
    ),
    Mistake(
        "an expression",
        DATA + "analysis: {stages: [{id: S, op: hep.select, params: {selection: 'MET_pt > > 3'}}]}",
        10,
        ("flow.yaml:2:65:", "'MET_pt > > 3', column 10: '>' is not expected here"),
    ),
    Mistake(
        "a function",
        DATA + "analysis: {stages: [{id: S, op: hep.select, params: {selection: 'sqrtt(MET_pt) > 3'}}]}",
        10,
        ("there is no function 'sqrtt'", "did you mean 'sqrt'?"),
    ),
    Mistake(
        "a file of data",
        a_file("muon.root"),
        11,
        ("flow.yaml:1:36: file 'muon.root' does not exist", "did you mean 'muons.root'?"),
    ),
    Mistake("a pattern", a_file("data/*.root"), 11, ("no file matches 'data/*.root'", "looked in")),
    Mistake(
        "a tree",
        DATA + STAGES + "sources: {events: {kind: root_tree, tree: Evnts}}",
        11,
        ("muons.root holds no tree 'Evnts'", "trees there: events", "did you mean 'events'?"),
    ),
    Mistake("a file cut in half", a_file("cut.root"), 11, ("cut.root is cut short", "copy it again")),
    Mistake("a file that is not ROOT", a_file("text.root"), 11, ("text.root is not a ROOT file",)),
    Mistake("a file of no bytes", a_file("nothing.root"), 11, ("nothing.root is empty",)),
    Mistake(
        "a missing plugin file",
        DATA + STAGES + "plugins: [opps.py]",
        10,
        ("flow.yaml:3:11: plugin file opps.py does not exist", "did you mean 'ops.py'?"),
    ),
    Mistake(
        "a plugin that is not Python",
        DATA + STAGES + "plugins: [syntax.py]",
        12,
        ("syntax.py:2:7: plugin file syntax.py fails: SyntaxError", "named at flow.yaml:3:11"),
    ),
    Mistake(
        "a plugin that raises",
        DATA + STAGES + "plugins: [raises.py]",
        12,
        ("raises.py:2:1: plugin file raises.py fails: ZeroDivisionError",),
    ),
    Mistake(
        "a plugin that imports what is not there",
        DATA + STAGES + "plugins: [imports.py]",
        12,
        ("imports.py:1:1:", "No module named 'nowhere'"),
    ),
    Mistake(
        "a product that nobody can merge",
        DATA + STAGES + "plugins: [declares.py]",
        12,
        ("declares.py:3:1: operation 'custom.tally' makes a product", "add merge="),
    ),
]


@pytest.fixture
def desk_with_data(desk: Desk) -> Desk:
    whole = desk.muons("muons.root", events=300).read_bytes()
    (desk.folder / "cut.root").write_bytes(whole[: len(whole) // 2])
    (desk.folder / "text.root").write_text("not a ROOT file\n" * 50)
    (desk.folder / "nothing.root").write_bytes(b"")
    desk.write("ops.py", "")
    desk.write("syntax.py", "import os\ndef f(:\n")
    desk.write("raises.py", "import os\n1 / 0\n")
    desk.write("imports.py", "import nowhere\n")
    desk.write(
        "declares.py",
        """\
        from cenote import operation

        @operation("custom.tally", reads=["MET_pt"], product="tally")
        def tally(events): return 1
        """,
    )
    return desk


def told(finished: subprocess.CompletedProcess[str]) -> str:
    assert "Traceback" not in finished.stderr + finished.stdout
    assert "fault of cenote" not in finished.stderr
    return finished.stderr


@pytest.mark.parametrize("mistake", MISTAKES, ids=lambda mistake: mistake.name.replace(" ", "-"))
def test_a_mistake_is_explained(desk_with_data: Desk, mistake: Mistake) -> None:
    desk_with_data.write("flow.yaml", mistake.text)
    finished = desk_with_data.typed("run", "flow.yaml")
    answer = told(finished)
    assert [words for words in mistake.words if words not in answer] == [], answer
    assert finished.returncode == mistake.code
    assert finished.stdout == ""
    assert not (desk_with_data.folder / "out").exists()


def test_all_mistakes_of_a_file_are_told_at_once_in_its_order(desk_with_data: Desk) -> None:
    desk_with_data.write(
        "flow.yaml",
        """\
        data: {datasets: [{name: d, files: [muons.root], nevents: -1}]}
        analysis:
          stages:
            - {id: A, op: hep.selct}
            - {id: B, op: hep.select, params: {selction: "MET_pt > 1"}, needs: [Aa]}
        execution:
          pools: {default: {resources: {memory: 4Gb}}}
          strateggy: local
        """,
    )
    finished = desk_with_data.typed("check", "flow.yaml")
    answer = told(finished)
    places = [line.split(": ")[0] for line in answer.splitlines() if line.startswith("flow.yaml:")]
    lines = [int(place.split(":")[1]) for place in places]
    assert lines == sorted(lines)
    assert set(lines) == {1, 4, 5, 7, 8}
    assert "6 problems in flow.yaml" in answer
    assert finished.returncode == 10


def test_unknown_pools_and_unknown_labels_are_told_together(desk: Desk) -> None:
    desk.muons("muons.root", events=100)
    stage = "op: hep.select, params: {selection: 'MET_pt > 1'}"
    desk.write(
        "flow.yaml",
        f"{DATA}{POOLS}analysis:\n  stages:\n    - {{id: A, {stage}, execution: {{pool: gpuu}}}}\n"
        f"    - {{id: B, {stage}, execution: {{require: gpus}}}}\n",
    )
    answer = told(desk.typed("check", "flow.yaml"))
    assert "2 problems in flow.yaml" in answer


def test_a_file_that_is_not_text_is_called_so(desk_with_data: Desk) -> None:
    finished = desk_with_data.typed("run", "muons.root")
    assert "muons.root is not a text file" in told(finished)
    assert finished.returncode == 10


def test_a_folder_instead_of_a_file_is_called_so(desk: Desk) -> None:
    (desk.folder / "flows").mkdir()
    finished = desk.typed("check", "flows")
    assert "flows is a folder, not a file" in told(finished)
    assert finished.returncode == 10


def test_a_missing_workflow_names_the_one_that_was_probably_meant(desk: Desk) -> None:
    desk.write("flow.yaml", DATA)
    desk.write("slurm.yaml", DATA)
    finished = desk.typed("check", "flow.yml")
    assert "flow.yml does not exist" in told(finished)
    assert "did you mean 'flow.yaml'?" in finished.stderr
    assert finished.returncode == 10
    assert "did you mean" not in told(desk.typed("check", "nosuch.yaml"))


def test_a_walltime_is_text_and_fine(desk_with_data: Desk) -> None:
    desk_with_data.write("flow.yaml", DATA + STAGES + "execution: {pools: {default: {config: {walltime: 12:00:00}}}}\n")
    finished = desk_with_data.typed("run", "flow.yaml", "--out", "out")
    assert finished.returncode == 0, finished.stderr
    assert "H (histogram" in finished.stdout


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("execution: {backend: dask, credentials: [kerberos]}", ("not available yet: credential 'kerberos'",)),
    ],
    ids=["credentials"],
)
def test_what_this_version_cannot_do_is_refused_by_check_as_by_run(
    desk_with_data: Desk, text: str, words: tuple[str, ...]
) -> None:
    desk_with_data.write("flow.yaml", DATA + STAGES + text + "\n")
    checked = desk_with_data.typed("check", "flow.yaml")
    refused = desk_with_data.typed("run", "flow.yaml")
    assert checked.returncode == refused.returncode == 11
    for answer in (told(checked), told(refused)):
        assert [word for word in words if word not in answer] == [], answer


def test_resuming_where_nothing_ran_runs_everything_and_says_so(desk_with_data: Desk) -> None:
    desk_with_data.write("flow.yaml", DATA + STAGES)
    finished = desk_with_data.typed("run", "flow.yaml", "--out", "out", "--resume")
    assert "out holds no run yet: nothing to resume" in told(finished)
    assert finished.returncode == 0


@pytest.mark.parametrize("out", ["notes.txt/out", "/proc/out"])
def test_a_folder_that_cannot_be_written_is_named(desk_with_data: Desk, out: str) -> None:
    desk_with_data.write("flow.yaml", DATA + STAGES)
    desk_with_data.write("notes.txt", "mine")
    finished = desk_with_data.typed("run", "flow.yaml", "--out", out)
    assert f"{out} is not writable" in told(finished)
    assert finished.returncode == 34


def test_a_folder_with_somebodys_files_is_left_alone(desk_with_data: Desk) -> None:
    desk_with_data.write("flow.yaml", DATA + STAGES)
    finished = desk_with_data.typed("run", "flow.yaml", "--out", ".")
    assert "is not empty and holds no run" in told(finished)
    assert finished.returncode == 2


@pytest.mark.parametrize(
    ("words", "code", "answer"),
    [
        (("--set", "backend"), 2, ("cannot set backend: this is not KEY=VALUE", "for example")),
        (("--set", "execution.backen=local"), 10, ("there is no key 'backen'", "did you mean 'backend'?")),
        (("--set", "analysis.stages.G.op=x"), 2, ("there is no 'G' in analysis.stages", "there are: H")),
        (("--profile", "nosuch"), 10, ("there is no profile 'nosuch'", "looked in")),
        (("--profile", "nosuch.yaml"), 10, ("nosuch.yaml does not exist",)),
        (("--workers", "0"), 2, ("--workers", "0 is not in the range")),
        (("--workers", "two"), 2, ("--workers", "'two'")),
        (("--resume", "--replace"), 2, ("choose one",)),
        (("--resume", "--fresh"), 2, ("choose one",)),
        (("--until", "H", "--only", "H"), 2, ("choose one",)),
        (("--until", "h"), 11, ("there is no stage 'h'", "did you mean 'H'?")),
        (("--only", "Hist"), 11, ("there is no stage 'Hist'", "stages: H")),
        (("--force", "h"), 11, ("there is no stage 'h'", "did you mean 'H'?")),
    ],
)
def test_a_bad_option_is_explained(
    desk_with_data: Desk, words: tuple[str, ...], code: int, answer: tuple[str, ...]
) -> None:
    desk_with_data.write("flow.yaml", DATA + STAGES)
    finished = desk_with_data.typed("run", "flow.yaml", *words)
    assert [word for word in answer if word not in told(finished)] == [], finished.stderr
    assert finished.returncode == code


def test_the_status_of_nothing_is_explained(desk: Desk) -> None:
    finished = desk.typed("status", "nowhere")
    assert "nowhere holds no run" in told(finished)
    assert "--out" in finished.stderr
    assert finished.returncode == 2


def test_a_command_that_does_not_exist_names_the_nearest(desk: Desk) -> None:
    finished = desk.typed("rum", "flow.yaml")
    assert "did you mean 'run'?" in told(finished)
    assert finished.returncode == 2


def test_a_branch_that_one_file_lacks_is_told_with_that_file_before_anything_runs(desk: Desk) -> None:
    for name, columns in {"a.root": ["MET_pt", "y"], "b.root": ["y"]}.items():
        write_flat(desk.folder / name, columns, events=10)
    desk.write("flow.yaml", a_file("*.root"))
    finished = desk.typed("run", "flow.yaml")
    assert "b.root" in told(finished)
    assert "'MET_pt'" in finished.stderr
    assert "a.root lacks" not in finished.stderr
    assert finished.returncode == 11


def test_a_file_without_entries_gives_an_empty_histogram(desk: Desk) -> None:
    write_flat(desk.folder / "empty.root", ["MET_pt"], events=0)
    desk.write("flow.yaml", a_file("empty.root"))
    finished = desk.typed("run", "flow.yaml")
    assert finished.returncode == 0, finished.stderr
    assert "0 entries" in finished.stdout


def write_flat(path: Path, columns: list[str], *, events: int) -> None:
    with uproot.recreate(path) as file:
        file.mktree("events", dict.fromkeys(columns, "f4"))
        if events:
            file["events"].extend({column: np.ones(events, "f4") for column in columns})


def test_a_broken_plugin_comes_first_and_its_consequences_not_at_all(desk_with_data: Desk) -> None:
    desk_with_data.write("zops.py", "import nothing_of_this_name\n")
    stages = "[{id: A, op: custom.pair}, {id: B, op: own.thing}, {id: H, op: hep.hst}]"
    desk_with_data.write("flow.yaml", f"{DATA}plugins: zops.py\nanalysis: {{stages: {stages}}}\n")
    answer = desk_with_data.typed("check", "flow.yaml")
    problems = [line for line in answer.stderr.splitlines() if not line.startswith(" ")]
    assert problems[0].startswith("zops.py:1:1: plugin file zops.py fails: ModuleNotFoundError")
    assert problems[1].endswith("there is no operation 'hep.hst'")
    assert problems[2:] == ["2 problems in 2 files"]


def test_an_expression_that_cannot_be_read_has_its_own_kind(desk_with_data: Desk) -> None:
    desk_with_data.write(
        "flow.yaml", f"{DATA}analysis: {{stages: [{{id: F, op: filter, params: {{expr: MET_pt > }}}}]}}\n"
    )
    answer = desk_with_data.typed("check", "flow.yaml", "--json")
    assert [problem["kind"] for problem in json.loads(answer.stdout)["problems"]] == ["bad-expression"]
    assert answer.returncode == 10
