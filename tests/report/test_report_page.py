"""Check the report page: it says everything that a run left, needs nothing else, and trusts nobody."""

from __future__ import annotations

import json
import re
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

from cenote.common.errors import CenoteError
from cenote.execution.runs.folder import RunFolder
from cenote.execution.runs.view.timeline import STEPS, read_timeline
from cenote.report.page import write_report

VOID = {"img", "meta", "br", "col", "link", "hr"}


class Page(HTMLParser):
    """Reads a page as strictly as a person would like: every tag closed, in order."""

    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=True)
        self.open: list[str] = []
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.words: list[str] = []
        self.ids: list[str] = []
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        self.ids += [value for name, value in attrs if name == "id" and value]
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open, f"</{tag}> closes nothing"
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if not {"script", "style"} & set(self.open):
            self.words.append(data)

    @property
    def text(self) -> str:
        return re.sub(r"\s+", " ", " ".join(self.words))

    def named(self, tag: str) -> list[dict[str, str | None]]:
        return [attributes for name, attributes in self.tags if name == tag]


def report_of(folder: Path) -> tuple[str, Page]:
    path = write_report(folder)
    assert path == folder / "report.html"
    text = path.read_text(encoding="utf-8")
    return text, Page(text)


def rewrite(folder: Path, name: str, **changes: Any) -> None:
    path = folder / name
    path.write_text(json.dumps(json.loads(path.read_text(encoding="utf-8")) | changes), encoding="utf-8")


def test_a_report_has_every_promised_section(run_folder: Path) -> None:
    _, page = report_of(run_folder)
    sections = [attributes["id"] for attributes in page.named("section")]
    assert sections == [
        *("failures", "warnings", "pictures", "cutflows", "plan"),
        *("stages", "pools", "fallbacks", "products", "provenance"),
    ]
    assert [attributes["href"] for attributes in page.named("a")][: len(sections)] == [f"#{name}" for name in sections]
    assert len(page.ids) == len(set(page.ids))


@pytest.mark.parametrize(
    "words",
    [
        "flow.yaml partial",
        "started 2026-03-01 12:00:00 UTC",
        "resumed from an earlier run",
        "cenote run flow.yaml --out 'my out'",
        "4m",
        "40 of 41",
        "ValueError: the model wants 4 columns, got 3",
        "data/run_7.root",
        "0 to 100000",
        'File "ops.py", line 12, in inference',
        "this machine has no GPU",
        "high_memory (20)",
        "gpu (18), default (2)",
        "1.2 GB",
        "95.0%",
        "16.6 k",
        "8 CPUs, 64 GB, 1 GPU",
        "0 to 20 × 4",
        "0.44",
        "no worker for 10m",
        "two muons",
        "40.00%",
        "10.00%",
        "1 axis, 60 bins, 1.2 M entries",
        "workers lost 1",
        "gpu lost 1 worker; the last one: its node was drained",
        "requires high_memory",
        "uproot",
        "deadbeef (with changes that are not committed)",
        "1 input file, 512 MB",
    ],
)
def test_a_report_tells(run_folder: Path, words: str) -> None:
    assert words in report_of(run_folder)[1].text


def test_a_report_asks_nobody_for_anything(run_folder: Path) -> None:
    text, page = report_of(run_folder)
    visible = text.replace("https://example.invalid/x", "")  # a label of the cutflow
    assert "http://" not in visible
    assert "https://" not in visible
    sources = [value for _, attributes in page.tags for name, value in attributes.items() if name in {"src", "srcset"}]
    assert sources
    assert all(value is not None and value.startswith("data:image/") for value in sources)
    assert page.named("link") == []
    assert all("src" not in attributes for attributes in page.named("script"))
    links = [attributes["href"] or "" for attributes in page.named("a")]
    assert all(link.startswith(("#", "plots/", "products/")) for link in links)
    policy = [a["content"] for a in page.named("meta") if a.get("http-equiv") == "Content-Security-Policy"]
    assert policy[0] is not None
    assert policy[0].startswith("default-src 'none'")


def test_pictures_are_in_the_page_with_a_text_for_those_who_do_not_see_them(run_folder: Path) -> None:
    _, page = report_of(run_folder)
    images = page.named("img")
    assert len(images) == 3
    assert all(image["alt"] for image in images)
    alts = [image["alt"] for image in images]
    assert "Picture MuonPt, drawn from MuonPt: 1 axis, 60 bins, 1.2 M entries" in alts
    assert "Picture each/data" in alts
    assert "The plan as a graph of stages: BuildIndex, RunInference" in alts
    assert [a["href"] for a in page.named("a") if (a["href"] or "").startswith("plots/")][:2] == [
        "plots/MuonPt.png",
        "plots/MuonPt.pdf",
    ]


def test_tables_have_headings_and_captions(run_folder: Path) -> None:
    _, page = report_of(run_folder)
    assert len(page.named("table")) == len(page.named("caption")) > 6
    assert all(attributes.get("scope") in {"col", "row"} for attributes in page.named("th"))
    assert [attributes.get("lang") for attributes in page.named("html")] == ["en"]


def test_what_users_wrote_never_becomes_a_tag(run_folder: Path) -> None:
    mean = "<script>alert('x')</script><img src=x onerror=alert(1)>\"' &amp;"
    stage = {"id": mean, "op": mean, "pools": {mean: 1}, "tasks": 1}
    failure = dict.fromkeys(("stage", "message", "cause", "dataset", "file", "traceback", "pool", "worker"), mean)
    product = {"name": mean, "kind": mean, "description": mean, "files": [mean], "plots": ["plots/MuonPt.png"]}
    rewrite(
        run_folder,
        "summary.json",
        status=mean,
        started=mean,
        stages=[stage],
        pools=[{"name": mean, "strategy": mean, "state": mean}],
        products=[product],
        fallbacks=[dict.fromkeys(("stage", "from", "to", "reason", "at"), mean)],
        failures=[failure],
        warnings=[mean],
    )
    planned = {"id": mean, "op": mean, "pools": [mean], "verdict": mean, "reason": mean}
    rewrite(run_folder, "plan.json", workflow=mean, stages=[planned])
    (run_folder / "plan.svg").write_text(f"<svg>{mean}</svg>", encoding="utf-8")
    rewrite(run_folder, "provenance.json", command=[mean], software={mean: mean}, inputs=[{"file": mean}])
    text, page = report_of(run_folder)
    assert len(page.named("script")) == 1
    assert all(attributes["src"] != "x" for attributes in page.named("img"))
    assert "onerror" not in {name for _, attributes in page.tags for name in attributes}
    assert page.text.count("<script>alert('x')</script>") > 20
    assert "<script>alert" not in text


def test_a_run_that_left_nothing_but_a_journal_has_a_report(run_folder: Path) -> None:
    for name in ("summary.json", "plan.json", "provenance.json", "plan.svg"):
        (run_folder / name).unlink()
    for folder in ("plots", "products"):
        for path in sorted((run_folder / folder).rglob("*"), reverse=True):
            path.unlink() if path.is_file() else path.rmdir()
        (run_folder / folder).rmdir()
    _, page = report_of(run_folder)
    assert "unfinished" in page.text
    assert page.named("section") == []


def test_a_run_that_was_killed_shows_how_far_it_came(run_folder: Path) -> None:
    (run_folder / "summary.json").unlink()
    _, page = report_of(run_folder)
    assert "flow.yaml unfinished" in page.text
    assert "3 of 41" in page.text


@pytest.mark.parametrize("name", ["summary.json", "plan.json", "provenance.json", "journal.jsonl", "plan.svg"])
@pytest.mark.parametrize("content", [None, b"", b'{"stages": 3, "tasks": [', b"[1, 2]", b"\xff\xfe\x00", b"null"])
def test_a_missing_or_damaged_file_costs_only_what_it_held(run_folder: Path, name: str, content: bytes | None) -> None:
    if content is None:
        (run_folder / name).unlink()
    else:
        (run_folder / name).write_bytes(content)
    _, page = report_of(run_folder)
    assert "cutflows" in page.ids


def test_values_of_the_wrong_kind_are_not_there(run_folder: Path) -> None:
    wrong = {
        "seconds": "long",
        "stages": [3, {"id": 4, "tasks": "many", "pools": []}],
        "pools": {"a": 1},
        "events": None,
    }
    rewrite(run_folder, "summary.json", **wrong, failures=["x", {}], products=[{}], warnings="none", fallbacks=[{}])
    rewrite(run_folder, "plan.json", stages=[{}], segments=[{}], warnings=None, pools=[{"elastic": 3}])
    rewrite(run_folder, "provenance.json", command="x", software=[], inputs=[{}], git="g", workflow=None)
    report_of(run_folder)


def test_environments_of_workers_are_shown_with_their_digests(run_folder: Path) -> None:
    packed = {
        "type": "packed-pixi",
        "source": "pixi.lock",
        "digest": "0f" * 32,
        "packages": {"numpy": "2.1", "hist": "2"},
    }
    rewrite(run_folder, "provenance.json", environments={"gpu": packed, "default": {"type": "current"}, "odd": {}})

    page, _ = report_of(run_folder)

    assert "<caption>Environments of workers</caption>" in page
    assert "packed-pixi" in page
    assert "0f" * 32 in page


def test_without_a_drawing_the_plan_is_shown_as_its_segments(run_folder: Path) -> None:
    (run_folder / "plan.svg").unlink()
    _, page = report_of(run_folder)
    assert "gpu or default" in page.text
    assert "20 tasks" in page.text


def test_a_succeeded_run_has_no_section_of_failures(run_folder: Path) -> None:
    rewrite(run_folder, "summary.json", status="succeeded", failures=[], warnings=[], fallbacks=[])
    rewrite(run_folder, "plan.json", warnings=[])
    _, page = report_of(run_folder)
    assert not {"failures", "warnings", "fallbacks"} & set(page.ids)
    assert "everything was computed" in page.text


def test_hundreds_of_failures_are_cut_with_a_word(run_folder: Path) -> None:
    failures = [{"stage": "S", "message": f"number {index}"} for index in range(250)]
    rewrite(run_folder, "summary.json", failures=failures)
    _, page = report_of(run_folder)
    assert "and 50 more: summary.json lists them all" in page.text


def test_the_same_run_gives_the_same_page(run_folder: Path) -> None:
    first, _ = report_of(run_folder)
    assert report_of(run_folder)[0] == first
    assert [path for path in run_folder.iterdir() if path.name.startswith(".")] == []


def test_a_folder_without_a_run_is_an_error_that_says_so(tmp_path: Path) -> None:
    with pytest.raises(CenoteError, match="holds no run") as caught:
        write_report(tmp_path)
    assert caught.value.exit_code == 2


def test_the_timeline_counts_what_ran_at_once(run_folder: Path) -> None:
    work = read_timeline(RunFolder(run_folder))
    assert work.seconds == 100
    lanes = dict(work.pools)
    assert list(lanes) == ["default", "gpu"]
    step = work.seconds / STEPS
    assert sum(lanes["gpu"]) * step == pytest.approx(90, rel=1e-3)
    assert max(lanes["gpu"]) == pytest.approx(2)
    assert lanes["default"][:70] == (0.0,) * 70


def test_only_the_last_attempt_is_on_the_timeline(run_folder: Path) -> None:
    journal = run_folder / "journal.jsonl"
    text = journal.read_bytes()
    journal.write_bytes(text.replace(b'"pool":"gpu"', b'"pool":"old"') + text + b'{"type":"TaskDo')
    assert [pool for pool, _ in read_timeline(RunFolder(run_folder)).pools] == ["default", "gpu"]


def test_it_says_why_stages_ran_again(run_folder: Path) -> None:
    causes = ['Select: cut changed, "pt > 20" → "pt > 25"', *(f"c{number}.root is new" for number in range(20))]
    rewrite(run_folder, "summary.json", why=[{"stage": "BuildIndex", "run": 12, "reused": 8, "causes": causes}])
    _, page = report_of(run_folder)
    assert 'BuildIndex 12 8 Select: cut changed, "pt > 20" → "pt > 25" c0.root is new' in page.text
    assert "and 11 more: summary.json lists them all" in page.text
    rewrite(run_folder, "summary.json", why=[])
    assert "Why stages ran again" not in report_of(run_folder)[1].text
