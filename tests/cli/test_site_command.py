"""Test `cenote site`: what a site provides in words and as JSON, and what is wrong with its file."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from cenote.cli.main import cli, exit_code_of

SITE = """\
site:
  name: mysite
  description: Two rooms full of computers.
  contact: help@example.org
execution:
  strategy: slurm
  config: {account: hep, walltime: 04:00:00, interface: ib0, port: 20000-20100, scratch: /scratch/$USER}
pool_profiles:
  gpu_worker:
    elastic: {min: 0, max: 4}
    resources: {memory: 64GB}
    config: {partition: gpu, walltime: 90m, directives: [--exclusive]}
  condor: {strategy: htcondor, workers: 5, config: {job_flavour: espresso, transfer_files: true}}
"""


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    file = tmp_path / "site.yaml"
    file.write_text(SITE)
    monkeypatch.setenv("CENOTE_SITE", str(file))
    monkeypatch.setenv("COLUMNS", "120")
    return file


def typed(*words: str) -> Result:
    return CliRunner().invoke(cli, ["site", *words])


def test_it_shows_what_the_site_gives_with_units_in_words(site: Path) -> None:
    shown = typed("show").output
    lines = [" ".join(line.split()) for line in shown.splitlines()]
    for line in (
        "Two rooms full of computers.",
        f"file {site}",
        "help help@example.org",
        "backend dask (follows from the strategy)",
        "strategy slurm",
        "standard_worker (built-in) slurm 10 1 CPU, 4 GB 4h",
        "gpu_worker slurm 0 to 4 4 CPUs, 64 GB, 1 GPU 1h 30m partition gpu, directives --exclusive",
        "condor htcondor 5 anything 4h job_flavour espresso, transfer_files yes",
        "driver listens on interface ib0, the first free port of 20000-20100",
        "workers listen on the interface that faces the driver, any free port",
        "scratch folder /scratch/$USER",
        "settings of slurm, for all pools",
        "account hep",
    ):
        assert line in lines, shown


def test_a_narrow_terminal_shows_everything_too(site: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    del site
    monkeypatch.setenv("COLUMNS", "80")
    shown = typed("show").output
    assert all(len(line) <= 80 for line in shown.splitlines())
    assert "…" not in shown


def test_the_same_as_json_with_seconds_and_bytes(site: Path) -> None:
    told = json.loads(typed("show", "--json").output)
    assert told["file"] == str(site)
    assert told["site"]["name"] == "mysite"
    assert told["defaults"] == {"strategy": "slurm"}
    assert told["network"] == {"interface": "ib0", "port": "20000-20100", "scratch": "/scratch/$USER"}
    assert told["strategies"]["slurm"] == {"account": "hep", "walltime": 14400}
    gpu = next(profile for profile in told["pool_profiles"] if profile["name"] == "gpu_worker")
    assert (gpu["walltime"], gpu["resources"]["memory"], gpu["built_in"]) == (5400, 64_000_000_000, False)
    assert gpu["settings"]["account"] == "hep"


def test_without_a_site_it_tells_where_it_looked(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("CENOTE_SITE")
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    shown = typed("show")
    assert shown.exit_code == 0
    assert "No site configuration found" in shown.output
    assert str(tmp_path / "cenote" / "site.yaml") in "".join(shown.output.split())  # a long one fills several lines
    assert json.loads(typed("show", "--json").output)["file"] is None


def test_the_file_of_a_site_that_is_right_has_no_problems(site: Path) -> None:
    checked = typed("check", str(site))
    assert (checked.exit_code, checked.output) == (0, f"{site}: no problems\n")


def test_mistakes_have_their_places_and_the_exit_code_is_10(site: Path, capsys: pytest.CaptureFixture[str]) -> None:
    site.write_text(SITE.replace("account: hep", "acount: hep").replace("max: 4", "max: four"))
    assert exit_code_of(["site", "check", str(site)]) == 10
    told = capsys.readouterr().err
    assert f"{site}:7:12: there is no key 'acount'" in told
    assert f"{site}:10:" in told
    assert "hint: did you mean 'account'?" in told
    assert f"2 problems in {site}" in told
    assert "of your site" not in told  # whoever checks a file is the one who keeps it


def test_problems_as_json(site: Path) -> None:
    site.write_text("execution: {strategy: slurm}\n")
    assert exit_code_of(["site", "check", str(site), "--json"]) == 10


def test_showing_a_site_with_a_mistake_tells_whom_to_tell(site: Path, capsys: pytest.CaptureFixture[str]) -> None:
    site.write_text(SITE.replace("account: hep", "acount: hep"))
    assert exit_code_of(["site", "show"]) == 10
    assert "report it to help@example.org, or ignore it with CENOTE_SITE=none" in capsys.readouterr().err


def test_without_dask_the_rest_is_shown_all_the_same_and_workflows_run_here(site: Path, tmp_path: Path) -> None:
    (tmp_path / "flow.yaml").write_text("analysis: {stages: []}\n")
    script = (
        "import sys\n"
        "sys.modules['distributed'] = None\n"
        "from cenote.cli.main import exit_code_of\n"
        f"assert exit_code_of(['site', 'check', {str(site)!r}]) == 0\n"
        "assert exit_code_of(['site', 'show']) == 0\n"
        f"exit_code_of(['check', {str(tmp_path / 'flow.yaml')!r}, '--strategy', 'local', '--no-data'])\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    assert "install cenote[dask]" in done.stdout
    assert "there is no key" not in done.stderr
