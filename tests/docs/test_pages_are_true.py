"""Test that pages are up to date and complete: every key, command, error and plugin has its heading.

What the pages show as code is run by another file here.
"""

from __future__ import annotations

import importlib.util
import json
import re
import sys
import tomllib
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any

import msgspec
import pytest
from click.testing import CliRunner

import cenote
from cenote.analysis.expressions.functions import FUNCTIONS
from cenote.cli.commands.clean import as_object as clean_as_object
from cenote.cli.main import COMMANDS, cli
from cenote.common import errors, software
from cenote.execution.runs.driver.left_behind import DriverStatus, LeftBehind, Leftover
from cenote.execution.runs.summary import Summary
from cenote.execution.start_failures import StartFailure
from cenote.execution.strategies.interface import JobId, TracedJob
from cenote.language.plugins import registry
from cenote.language.plugins.kinds import PLANNED, PluginKind
from cenote.planning.record import PlanRecord
from cenote.testing.muons import write_muons

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
REFERENCE = DOCS / "reference"
PAGES = [*ROOT.glob("*.md"), ROOT / "examples" / "README.md", *DOCS.rglob("*.md")]
LINK = re.compile(r"\]\(([^)\s]+)\)")
LARGEST_PICTURE = 150_000


@cache
def generator() -> ModuleType:
    spec = importlib.util.spec_from_file_location("docs_generate", DOCS / "generate.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # dataclasses look their module up
    spec.loader.exec_module(module)
    return module


def named(path: Path) -> str:
    return str(path.relative_to(ROOT))


def headings(page: Path) -> list[str]:
    return [line.lstrip("# ") for line in page.read_text(encoding="utf-8").splitlines() if line.startswith("#")]


def words_in_headings(page: Path) -> set[str]:
    return {word for heading in headings(page) for word in re.findall(r"`([^`]+)`", heading)}


@pytest.fixture(autouse=True)
def built_in_plugins_only() -> Iterator[None]:
    restore = registry.forget_added()
    yield
    restore()


def test_reference_pages_are_what_the_code_gives() -> None:
    stale = [named(path) for path in generator().stale(generator().pages())]
    assert not stale, f"not up to date: {', '.join(stale)}; run `make docs` and commit the result"


def test_every_key_of_the_language_has_a_heading() -> None:
    missing = set(generator().language_keys()) - words_in_headings(REFERENCE / "language.md")
    assert not missing


def test_every_command_has_a_heading() -> None:
    assert {f"cenote {name}" for name in COMMANDS} <= words_in_headings(REFERENCE / "commands.md")


def test_every_kind_of_error_has_a_heading() -> None:
    assert {kind.name for kind in errors.KINDS} == words_in_headings(REFERENCE / "errors.md")


@pytest.mark.parametrize("kind", PluginKind)
def test_every_plugin_has_a_heading(kind: PluginKind) -> None:
    pages = {
        PluginKind.OPERATION: "operations",
        PluginKind.RENDERER: "renderers",
        PluginKind.SOURCE: "sources-and-sinks",
        PluginKind.SINK: "sources-and-sinks",
    }
    page = REFERENCE / f"{pages.get(kind, 'other-plugins')}.md"
    assert {*registry.built_in_names(kind), *PLANNED.get(kind, {})} <= words_in_headings(page)


def test_every_function_of_expressions_is_listed() -> None:
    listed = (REFERENCE / "expressions.md").read_text(encoding="utf-8")
    assert [name for name in FUNCTIONS if f"| `{name}(" not in listed] == []


@pytest.mark.parametrize("page", PAGES, ids=named)
def test_links_lead_somewhere(page: Path) -> None:
    for link in LINK.findall(page.read_text(encoding="utf-8")):
        if "://" in link:
            continue
        name, _, anchor = link.partition("#")
        target = (page.parent / name).resolve() if name else page
        assert target.exists(), f"{named(page)} links to {link}"
        if anchor:
            assert anchor in map(as_anchor, headings(target)), f"{named(page)} links to {link}"


def as_anchor(heading: str) -> str:
    """As code hosts make anchors of headings."""
    return re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")


def test_every_page_is_reached_from_the_index() -> None:
    index = (DOCS / "index.md").read_text(encoding="utf-8")
    linked = {(DOCS / link.partition("#")[0]).resolve() for link in LINK.findall(index)}
    assert {page for page in DOCS.rglob("*.md") if page.name != "index.md"} <= linked


def test_pictures_are_small() -> None:
    assert [path.name for path in (DOCS / "images").iterdir() if path.stat().st_size > LARGEST_PICTURE] == []


def test_every_decision_says_its_price_and_what_would_change_it() -> None:
    parts = ("**Context.** ", "**Choice.** ", "**Price.** ", "**What would change our mind.** ")
    for page in (DOCS / "decisions").glob("*.md"):
        text = page.read_text(encoding="utf-8")
        assert [part for part in parts if text.count(part) != 1] == [], page.name


def test_decisions_are_numbered_in_order() -> None:
    numbered = {page.name[:4]: page.read_text(encoding="utf-8") for page in (DOCS / "decisions").glob("*.md")}
    assert sorted(numbered) == [f"{number:04}" for number in range(1, len(numbered) + 1)]
    assert [number for number, text in numbered.items() if not text.startswith(f"# {int(number)}. ")] == []


def test_no_word_is_in_the_glossary_twice() -> None:
    text = (ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8")
    rows = re.findall(r"(?m)^\| ([a-z' ]+) \| ", text.partition("## The words")[2].partition("\n## ")[0])
    words = [row for row in rows if not row.startswith("word")]
    assert words
    assert len(words) == len(set(words))


def test_the_layers_on_the_page_are_those_that_are_checked() -> None:
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["importlinter"]
    (layers,) = [one["layers"] for one in contracts["contracts"] if one.get("containers") == ["cenote"]]
    written = "\n".join(layer.replace("cenote.", "") for layer in layers)
    assert f"```text\n{written}\n```" in (ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8")


def test_every_package_is_on_the_page_of_the_architecture() -> None:
    page = (ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8")
    folders = [path.name for path in (ROOT / "src" / "cenote").iterdir() if (path / "__init__.py").exists()]
    assert [name for name in folders if f"{name}/" not in page] == []


def test_every_key_of_plan_summary_and_probe_is_on_the_page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("CENOTE_CACHE", str(tmp_path / ".cache"))
    write_muons(tmp_path / "muons.root", events=100)
    flow = tmp_path / "flow.yaml"
    stages = [{"id": "Pt", "op": "hep.hist", "params": {"axes": ["Muon_pt"]}, "render": []}]
    data = {"datasets": [{"name": "mc", "files": "muons.root"}]}
    flow.write_text(json.dumps({"data": data, "analysis": {"stages": stages}}))
    plan = json.loads(CliRunner().invoke(cli, ["plan", str(flow), "--json"]).stdout)
    summary = cenote.load(flow).run(tmp_path / "out").summary
    probe = json.loads(CliRunner().invoke(cli, ["probe", str(flow), "--json"]).stdout)
    page = (REFERENCE / "plan-and-summary-json.md").read_text(encoding="utf-8")
    about_plan, about_summary, about_probe, about_clean = page.split("\n## ")[1:]
    every_of_plan, every_of_summary = (REFERENCE / "record-keys.md").read_text(encoding="utf-8").split("\n## ")[1:]
    about_plan, about_summary = about_plan + every_of_plan, about_summary + every_of_summary
    pairs = ((plan, about_plan), (summary, about_summary), (probe, about_probe), (what_clean_says(), about_clean))
    for value, text in pairs:
        assert keys_of(value) - words_in(text) == set()
    assert keys_of_record(PlanRecord) - words_in(every_of_plan) == set()
    assert keys_of_record(Summary) - words_in(every_of_summary) == set()
    assert keys_of(probe["pools"][0]["node"]) - set(re.findall(r"\w+", about_probe)) == set()


def words_in(text: str) -> set[str]:
    """Words that stand as code."""
    return set(re.findall(r"\w+", " ".join(re.findall(r"`([^`]+)`", text))))


def keys_of_record(record: type[msgspec.Struct]) -> set[str]:
    """The keys that a record may ever have, and those of the records in it."""
    parts = msgspec.json.schema(record)["$defs"]
    own = {name for name, kind in vars(sys.modules[record.__module__]).items() if is_record(kind)}
    return {key for name in own & parts.keys() for key in parts[name].get("properties", ())}


def is_record(kind: object) -> bool:
    return isinstance(kind, type) and issubclass(kind, msgspec.Struct)


def what_clean_says() -> dict[str, Any]:
    """Of one job: what there is on the machine that runs this is nobody's business."""
    left = Leftover(TracedJob(JobId("7"), "3f2a", "gpu", "gpu-1", "PENDING"), "slurm", DriverStatus.OVER)
    return clean_as_object(LeftBehind((left,)), (), ())


def keys_of(value: Any, depth: int = 2) -> set[str]:
    """The keys of an object and of the objects in its lists."""
    if isinstance(value, list) and value:
        return keys_of(value[0], depth)
    if not isinstance(value, dict) or depth == 0:
        return set()
    inner = [keys_of(child, depth - 1) for child in value.values() if isinstance(child, list)]
    return set(value).union(*inner)


def test_the_page_on_environments_has_every_rule_and_every_failure() -> None:
    numbers = {0: "–", 1: "the first number", 2: "the first two numbers", software.WHOLE: "the whole version"}
    page = (DOCS / "how-to" / "environments.md").read_text(encoding="utf-8")
    names = {name: "Python" if name == "python" else f"`{name}`" for name in software.RULES}
    rules = [f"| {names[name]} | {numbers[rule.numbers]} | {rule.why} |" for name, rule in software.RULES.items()]
    failures = [f"| {code} | {words} | {hint} |" for code, words, hint in (failure.value for failure in StartFailure)]
    assert [line for line in (*rules, *failures) if line not in page.splitlines()] == []
    types = [name for name in registry.names(PluginKind.ENVIRONMENT) if f"`{name}`" not in page]
    assert types == []
