"""Test `cenote ops`: the list, and the page of one."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner

from cenote.cli.main import cli, exit_code_of
from cenote.language.plugins import registry
from cenote.language.plugins.kinds import PluginKind


@pytest.fixture(autouse=True)
def _own_plugins_stay_here() -> Iterator[None]:
    restore = registry.forget_added()
    yield
    restore()


def told(*arguments: str) -> str:
    result = CliRunner().invoke(cli, ["ops", *arguments])
    assert result.exit_code == 0, result.output
    return result.output


def test_the_list_has_every_operation_with_a_line_about_it() -> None:
    listed = {row["name"]: row for row in json.loads(told("--json"))}
    assert set(registry.names(PluginKind.OPERATION)) <= set(listed)
    assert all(row["description"] for row in listed.values())
    assert listed["hep.inference"]["available"] is True
    assert "hep.define" in told()


@pytest.mark.parametrize("kind", list(PluginKind))
def test_every_plugin_of_every_kind_has_a_page(kind: PluginKind) -> None:
    for name in registry.names(kind):
        page = json.loads(told(name, "--kind", kind.value, "--json"))
        assert page["description"]
        assert all(setting["about"] for setting in page["settings"]), name
        assert page["example"]
        assert name in page["example"] or kind is PluginKind.PRODUCT


def test_a_page_shows_settings_and_an_example() -> None:
    page = told("hep.hist")
    for words in ("hep.hist", "axes", "required", "example", "- id: MuonPt", "op: hep.hist"):
        assert words in page


def test_an_unknown_operation_shows_the_nearest(capsys: pytest.CaptureFixture[str]) -> None:
    assert exit_code_of(["ops", "hep.hst"]) == 12
    assert "did you mean 'hep.hist'?" in capsys.readouterr().err


def test_own_plugins_are_listed_from_their_file(tmp_path: Path) -> None:
    file = tmp_path / "ops.py"
    file.write_text(
        "from cenote import operation\n\n\n"
        '@operation("custom.double", reads=["x"], adds=["y"])\n'
        "def double(events, *, factor: float = 2.0):\n"
        '    """Twice as much."""\n'
        '    return {"y": factor * events["x"]}\n'
    )
    assert "Twice as much." in told("--plugin", str(file))
    assert "factor" in told("custom.double", "--plugin", str(file))
