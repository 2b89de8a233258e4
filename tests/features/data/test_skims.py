"""Skims: events written by one workflow are what a second one reads; and the other ways events come in and join."""

from __future__ import annotations

from pathlib import Path

import awkward as ak
import numpy as np
import pytest
import uproot

import cenote
from cenote.language.plugins import registry
from cenote.language.plugins.kinds import PluginKind

from ..conftest import Desk

HEAD = """
    data:
      datasets:
        - {name: first, files: [a.root], eventtype: data}
        - {name: second, files: [b.root], eventtype: mc}
    sources: {events: {kind: root_tree, chunk_size: 500}}
    analysis:
      stages:
"""
MET = "{name: x, source: MET_pt, bins: {nbins: 20, low: 0, high: 200}}"
PT = "{name: x, source: Muon_pt, bins: {nbins: 20, low: 0, high: 200}}"


def hist(name: str, axis: str, more: str = ", render: []") -> str:
    return f"        - {{id: {name}, op: hep.hist, params: {{dataset_axis: true, axes: [{axis}]}}{more}}}\n"


def select(expr: str, more: str = "") -> str:
    return f"        - {{id: Hard, op: hep.select, params: {{selection: '{expr}'}}{more}}}\n"


@pytest.fixture
def data(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> Desk:
    monkeypatch.chdir(desk.folder)
    desk.muons("a.root", events=1200)
    desk.muons("b.root", events=700, seed=2)
    return desk


def skimming(desk: Desk, write: str, *, selection: str = "MET_pt > 40") -> cenote.Run:
    flow = desk.write("skim.yaml", HEAD + select(selection, f", write: {write}") + hist("Met", MET) + hist("Pt", PT))
    run = cenote.load(flow).run("out", workers=1)
    assert run.status == "succeeded", str(run.failures)
    return run


def reading_back(desk: Desk, kind: str, pattern: str) -> cenote.Run:
    head = HEAD.replace("kind: root_tree, chunk_size: 500", f"kind: {kind}")
    for name, dataset in {"a.root": "first", "b.root": "second"}.items():
        head = head.replace(name, f'"out/products/{pattern.format(dataset=dataset)}"')
    flow = desk.write("again.yaml", head + hist("Met", MET) + hist("Pt", PT))
    run = cenote.load(flow).run("again")
    assert run.status == "succeeded", str(run.failures)
    return run


@pytest.mark.parametrize(
    ("kind", "settings", "suffix"),
    [
        ("root_tree", "", "root"),
        ("root_tree", ", format: ttree", "root"),
        ("root_tree", ", compression: zstd, compression_level: 4", "root"),
        ("parquet", "", "parquet"),
    ],
    ids=["rntuple", "ttree", "zstd", "parquet"],
)
def test_a_skim_read_back_gives_the_same_histograms(data: Desk, kind: str, settings: str, suffix: str) -> None:
    first = skimming(data, f"{{kind: {kind}, path: skim.{suffix}{settings}}}")
    again = reading_back(data, kind, f"skim/{{dataset}}/*.{suffix}")
    for name in ("Met", "Pt"):
        assert first.product(name).sum(flow=True) > 0
        assert first.product(name) == again.product(name)


def test_every_partition_has_its_own_file_and_the_run_lists_them(data: Desk) -> None:
    run = skimming(data, "{kind: root_tree, path: skim.root}")
    written = {entry["path"]: entry["entries"] for entry in run.product("Hard:files")}
    assert [*written] == [
        *(f"skim/first/{part:05}.root" for part in range(3)),
        *(f"skim/second/{part:05}.root" for part in range(2)),
    ]
    on_disk = {str(path.relative_to("out/products")) for path in Path("out/products").rglob("*.root")} - {
        "Met.root",
        "Pt.root",
    }
    assert on_disk == set(written)
    for path, entries in written.items():
        assert uproot.open(f"out/products/{path}")["events"].num_entries == entries
    assert sum(written.values()) == run.product("Met").sum(flow=True)


@pytest.mark.parametrize(
    ("kind", "settings", "suffix"),
    [("root_tree", "", "root"), ("root_tree", ", format: ttree", "root"), ("parquet", "", "parquet")],
    ids=["rntuple", "ttree", "parquet"],
)
def test_a_dataset_can_have_one_file_in_the_order_of_its_events(
    data: Desk, kind: str, settings: str, suffix: str
) -> None:
    first = skimming(data, f"{{kind: {kind}, path: skim.{suffix}, when: dataset{settings}}}")
    files = {entry["path"]: entry["entries"] for entry in first.product("Hard:files")}
    assert [*files] == [f"skim/first.{suffix}", f"skim/second.{suffix}"]
    assert sum(files.values()) == first.product("Met").sum(flow=True)
    again = reading_back(data, kind, f"skim/{{dataset}}.{suffix}")
    assert first.product("Met") == again.product("Met")
    assert first.product("Pt") == again.product("Pt")
    source = registry.load(PluginKind.SOURCE, kind)()
    read = source.read(f"out/products/skim/first.{suffix}", ["MET_pt"], 0, files[f"skim/first.{suffix}"])
    met = uproot.open("a.root")["events"]["MET_pt"].array(library="np")
    assert np.array_equal(np.asarray(read["MET_pt"]), met[met > 40])


@pytest.mark.parametrize("when", ["partition", "dataset"])
def test_a_skim_that_a_run_wrote_again_is_not_called_damaged(data: Desk, when: str) -> None:
    write = f"{{kind: root_tree, path: skim, when: {when}}}"
    for settings in ("keep: [MET_pt, Muon_pt]", "keep: [MET_pt]", "keep: [MET_pt, Muon_pt]", "keep: [MET_pt]"):
        run = skimming(data, f"{write[:-1]}, {settings}}}")
        assert run.warnings == ()
        [file, *_] = run.product("Hard:files")
        there = uproot.open(f"out/products/{file['path']}")["events"].keys()
        assert ("Muon_pt" in there) is ("Muon" in settings)


@pytest.mark.parametrize("when", ["partition", "dataset"])
@pytest.mark.parametrize("kind", ["parquet", "root_tree"])
def test_a_skim_that_was_changed_is_written_again(data: Desk, kind: str, when: str) -> None:
    write = f"{{kind: {kind}, path: skim, when: {when}}}"
    first = skimming(data, write)
    for file in [one for one in Path("out/products").rglob("*") if "skim" in one.parts and one.is_file()]:
        content = bytearray(file.read_bytes())
        content[len(content) // 2] ^= 16
        file.write_bytes(content)
    second = skimming(data, write)
    assert any("recomputed" in words for words in second.summary["warnings"])
    suffix = {"parquet": "parquet", "root_tree": "root"}[kind]
    again = reading_back(data, kind, f"skim/{{dataset}}{'' if when == 'dataset' else '/*'}.{suffix}")
    assert first.product("Met") == again.product("Met")


def test_pictures_have_the_folders_of_their_names(data: Desk) -> None:
    flow = data.write(
        "flow.yaml",
        HEAD
        + hist("Met", MET, ", render: {op: hep.render.hist1d, out: sr/met, formats: [png]}")
        + hist("Other", MET, ", render: {op: hep.render.hist1d, out: cr/met.png, formats: [png]}"),
    )
    run = cenote.load(flow).run("out", workers=1)
    assert run.status == "succeeded"
    assert [str(plot) for plot in run.plots] == ["out/plots/sr/met.png", "out/plots/cr/met.png"]
    assert all(plot.is_file() for plot in run.plots)


def test_names_without_the_dataset_do_not_collide(data: Desk) -> None:
    run = skimming(data, "{kind: root_tree, path: 'skims/{part}.root', keep: [MET_pt]}")
    paths = [entry["path"] for entry in run.product("Hard:files")]
    assert len(set(paths)) == len(paths) == 5
    assert paths[0] == "skims/first/00000.root"


def test_keep_chooses_the_columns(data: Desk) -> None:
    run = skimming(data, "{kind: parquet, path: 'skims/{dataset}-{part}', keep: [MET_pt, Muon_pt]}")
    (first, *_) = run.product("Hard:files")
    assert ak.from_parquet(f"out/products/{first['path']}").fields == ["MET_pt", "Muon_pt"]


def test_a_column_to_keep_that_is_not_there_is_told_before_anything_runs(data: Desk) -> None:
    data.write("flow.yaml", HEAD + select("MET_pt > 40", ", write: {path: skim.root, keep: [MET_ptt]}"))
    finished = data.typed("check", "flow.yaml")
    assert "MET_ptt" in finished.stderr
    assert "did you mean 'MET_pt'?" in finished.stderr
    assert finished.returncode == 11


@pytest.mark.parametrize(("kind", "suffix"), [("root_tree", "root"), ("parquet", "parquet")])
def test_no_events_make_whole_files_that_can_be_read(data: Desk, kind: str, suffix: str) -> None:
    run = skimming(data, f"{{kind: {kind}, path: skim.{suffix}}}", selection="MET_pt < 0")
    assert {entry["entries"] for entry in run.product("Hard:files")} == {0}
    again = reading_back(data, kind, f"skim/{{dataset}}/*.{suffix}")
    assert again.product("Pt").sum(flow=True) == 0


def test_a_resumed_run_does_not_write_its_skims_again(data: Desk) -> None:
    run = skimming(data, "{kind: root_tree, path: skim.root}")
    files = [Path("out/products") / entry["path"] for entry in run.product("Hard:files")]
    before = [path.stat().st_mtime_ns for path in files]
    again = cenote.load("skim.yaml").run("out", resume=True)
    assert again.status == "succeeded"
    assert [path.stat().st_mtime_ns for path in files] == before
    assert again.product("Hard:files") == run.product("Hard:files")


def test_fields_give_columns_other_names(data: Desk) -> None:
    flow = data.write(
        "flow.yaml",
        "fields: {met: {stream: events, branch: MET_pt}, pt: Muon_pt}\n"
        + select_and_hist("met > 40 & max(pt) > 10", "{name: x, source: pt, bins: {nbins: 20, low: 0, high: 200}}"),
    )
    run = cenote.load(flow).run("out")
    assert run.status == "succeeded", str(run.failures)
    arrays = uproot.concatenate(["a.root:events", "b.root:events"], ["MET_pt", "Muon_pt"])
    chosen = arrays[(arrays.MET_pt > 40) & ak.fill_none(ak.max(arrays.Muon_pt, axis=1) > 10, False)]
    expected = np.histogram(ak.to_numpy(ak.flatten(chosen.Muon_pt)), bins=20, range=(0, 200))[0]
    assert run.product("H").project("x").values().tolist() == expected.tolist()


def select_and_hist(selection: str, axis: str) -> str:
    import textwrap

    return textwrap.dedent(HEAD + select(selection) + hist("H", axis))


def test_applies_to_limits_a_stage_to_its_datasets(data: Desk) -> None:
    stages = (
        "        - {id: Twice, op: hep.define, params: {variables: [{name: x, expr: 'MET_pt * 0 + 2'}]}}\n"
        + select("MET_pt > 40", ", applies_to: {eventtype: mc}")
        + hist("Met", MET)
        + hist("OnlyFirst", MET, ", applies_to: {datasets: [first]}")
    )
    run = cenote.load(data.write("flow.yaml", HEAD + stages)).run("out")
    assert run.status == "succeeded", str(run.failures)
    second = uproot.open("b.root")["events"]["MET_pt"].array(library="np")
    assert run.product("Met")[{"dataset": "first"}].sum(flow=True) == 1200
    assert run.product("Met")[{"dataset": "second"}].sum(flow=True) == np.sum(second > 40)
    assert run.product("OnlyFirst").sum(flow=True) == 1200


@pytest.mark.parametrize("pool", ["default", "other"])
def test_branches_are_joined_event_by_event(data: Desk, pool: str) -> None:
    """Both branches see the source's events; the join has the columns of both for events that both kept."""
    stages = f"""
        - {{id: A, op: hep.select, needs: [], params: {{selection: "MET_pt > 20"}}}}
        - {{id: Ax, op: hep.define, params: {{variables: [{{name: ax, expr: "MET_pt * 2"}}]}}}}
        - {{id: B, op: hep.select, needs: [], params: {{selection: "nMuon >= 1"}}, execution: {{require: {pool}}}}}
        - {{id: Bx, op: hep.define, params: {{variables: [{{name: bx, expr: "max(Muon_pt)"}}]}}}}
        - {{id: Both, op: hep.define, needs: [Ax, Bx], params: {{variables: [{{name: both, expr: "ax + bx"}}]}}}}
"""
    axis = "{name: x, source: both, bins: {nbins: 20, low: 0, high: 400}}"
    text = HEAD + stages + hist("H", axis) + "    execution: {pools: {default: {}, other: {}}}\n"
    run = cenote.load(data.write("flow.yaml", text)).run("out")
    assert run.status == "succeeded", str(run.failures)
    arrays = uproot.concatenate(["a.root:events", "b.root:events"], ["MET_pt", "Muon_pt", "nMuon"])
    chosen = arrays[(arrays.MET_pt > 20) & (arrays.nMuon >= 1)]
    values = ak.to_numpy(chosen.MET_pt * 2 + ak.max(chosen.Muon_pt, axis=1))
    expected = np.histogram(values, bins=20, range=(0, 400))[0]
    assert run.product("H").project("x").values().tolist() == expected.tolist()
    assert run.product("H").sum(flow=True) == len(chosen)


def test_a_table_of_trips_in_parquet_has_nothing_to_do_with_physics(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert desk.typed("init", "trips", "--template", "tabular").returncode == 0
    folder = desk.folder / "trips"
    monkeypatch.chdir(folder)
    restore = registry.forget_added()
    try:
        run = cenote.load("trips.yaml").run("out")
    finally:
        restore()
    assert run.status == "succeeded", str(run.failures)
    for dataset in ("weekdays", "weekends"):
        trips = ak.from_parquet(sorted((folder / "data").glob(f"{dataset}_*.parquet")))
        chosen = trips[(trips.minutes > 1) & (trips.minutes < 180) & (trips.kilometres > 0.1)]
        expected = np.histogram(ak.to_numpy(chosen.start) % 24, bins=48, range=(0, 24))[0]
        assert run.product("Hours")[{"dataset": dataset}].values().tolist() == expected.tolist()
    assert {path.stem for path in run.plots} == {"hours", "speeds", "distance_speed"}


@pytest.mark.parametrize("when", ["partition", "dataset"])
def test_skims_go_to_a_folder_elsewhere_that_a_setting_allows(data: Desk, tmp_path: Path, when: str) -> None:
    elsewhere = tmp_path / "elsewhere"
    sets = [f"execution.write_outside=[{elsewhere}]"]
    write = f"{{kind: parquet, path: '{elsewhere}/hard', when: {when}}}"
    flow = data.write("skim.yaml", HEAD + select("MET_pt > 40", f", write: {write}"))
    run = cenote.load(flow, sets=sets).run("out", workers=1)
    assert run.status == "succeeded", str(run.failures)
    whole = [elsewhere / "hard/first.parquet", elsewhere / "hard/second.parquet"]
    written = sorted(path for path in elsewhere.rglob("*") if path.is_file())
    assert len(written) == 5 if when == "partition" else written == whole
    assert {Path(one["path"]) for one in run.product("Hard:files")} == set(written)
    again = cenote.load(flow, sets=sets).run("out", workers=1)
    assert again.summary["tasks"]["reused"] == again.summary["tasks"]["total"]
    assert cenote.load(flow, sets=sets).run("out", workers=1, fresh=True).status == "succeeded"
    assert sorted(path for path in elsewhere.rglob("*") if path.is_file()) == written


def test_a_link_in_the_folder_of_a_run_leads_no_result_out_of_it(data: Desk, tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    Path("out/products").mkdir(parents=True)
    Path("out/products/hard").symlink_to(elsewhere)
    flow = data.write("skim.yaml", HEAD + select("MET_pt > 40", ", write: {kind: parquet, path: hard}"))
    with pytest.raises(cenote.CenoteError, match="a link leads") as refused:
        cenote.load(flow).run("out", workers=1)
    assert refused.value.problems[0].place is not None
    assert list(elsewhere.iterdir()) == []
    allowed = cenote.load(flow, sets=[f"execution.write_outside=[{elsewhere}]"]).run("out", workers=1)
    assert allowed.status == "succeeded"
    assert cenote.load(flow, sets=[f"execution.write_outside=[{elsewhere}]"]).run("out", fresh=True, workers=1)
    assert len(list(elsewhere.rglob("*.parquet"))) == 5


@pytest.mark.parametrize("name", ["products", "plots", "reports"])
def test_no_folder_of_results_may_be_a_link_that_leads_out(data: Desk, tmp_path: Path, name: str) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    Path("out").mkdir()
    Path("out", name).symlink_to(elsewhere)
    flow = data.write("flow.yaml", HEAD + select("MET_pt > 40", ", write: {kind: parquet, path: hard}"))
    with pytest.raises(cenote.CenoteError, match=f"a link leads from .*out/{name} to ") as refused:
        cenote.load(flow).run("out", workers=1)
    assert len(refused.value.problems) == 1
    assert list(elsewhere.iterdir()) == []
    allowed = cenote.load(flow, sets=[f"execution.write_outside=[{elsewhere}]"]).run("out", workers=1)
    assert allowed.status == "succeeded"
