"""The file of a site stands under everything that its users write, and over what is built in."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from cenote.language.execution import Pool
from cenote.language.layers.site import find_site, site_places
from cenote.language.read import Checked
from cenote.language.workflow import Workflow

Write = Callable[[str, str], Path]
Read = Callable[..., Checked]
Load = Callable[..., Workflow]

NOTHING_TO_DO = "analysis: {stages: []}\n"
SITE = """
    site: {name: mysite, contact: help@example.org}
    execution:
      backend: dask
      strategy: slurm
      config: {account: hep, scratch: /scratch/$USER}
      defaults: {cpu: short}
      pools:
        short: {use: standard_worker, config: {partition: short}}
    pool_profiles:
      standard_worker: {workers: 20, config: {walltime: 4h}}
      gpu_worker: {strategy: htcondor, elastic: {min: 0, max: 3}, config: {job_flavour: longlunch}}
"""


@pytest.fixture
def site(write: Write, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], Path]:
    """Write the file of a site, and let it count."""

    def writer(text: str) -> Path:
        path = write("sites/mysite.yaml", text)
        monkeypatch.setenv("CENOTE_SITE", str(path))
        return path

    return writer


def pool(workflow: Workflow, name: str) -> Pool:
    return next(pool for pool in workflow.execution.pools if pool.name == name)


# --- where it is looked for


def test_the_first_file_that_is_there_counts(folder: Path, write: Write, monkeypatch: pytest.MonkeyPatch) -> None:
    del folder
    monkeypatch.delenv("CENOTE_SITE")
    monkeypatch.setenv("XDG_CONFIG_HOME", "configuration")
    own = write("configuration/cenote/site.yaml", "site: {name: mine}")
    assert find_site() == own
    assert [words for words, _ in site_places()] == [
        "$CENOTE_SITE (not set)",
        "configuration/cenote/site.yaml",
        "/etc/cenote/site.yaml",
    ]


def test_without_a_folder_for_configuration_it_is_the_one_in_the_home(
    folder: Path, write: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("CENOTE_SITE")
    monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)
    write("home/.config/cenote/site.yaml", "site: {name: mine}")
    assert find_site() == folder.resolve() / "home/.config/cenote/site.yaml"


def test_the_variable_wins_and_none_leaves_the_site_out(
    site: Callable[[str], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    path = site("site: {name: mine}")
    assert find_site() == path
    monkeypatch.setenv("CENOTE_SITE", "none")
    assert find_site() is None


def test_a_file_that_the_variable_names_and_that_is_not_there_is_a_problem(
    read: Read, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CENOTE_SITE", "nowhere.yaml")
    (problem,) = read(NOTHING_TO_DO).problems
    assert (problem.kind.name, problem.message) == ("missing-file", "nowhere.yaml does not exist")
    assert problem.details == ("this is your site's configuration file: ignore it with CENOTE_SITE=none",)


# --- what holds


def test_a_workflow_that_says_nothing_gets_everything_from_the_site(
    site: Callable[[str], Path], workflow: Load
) -> None:
    site(SITE)
    loaded = workflow(NOTHING_TO_DO)
    assert (loaded.execution.backend, loaded.execution.strategy) == ("dask", "slurm")
    assert loaded.execution.defaults.cpu == "short"
    (short,) = loaded.execution.pools
    assert (short.name, short.workers, short.resources.cpus) == ("short", 20, 1)  # cpus: the built-in profile below
    assert short.config == {"walltime": "4h", "partition": "short"}


def test_profiles_the_workflow_and_the_command_line_win(
    site: Callable[[str], Path], write: Write, workflow: Load
) -> None:
    site(SITE)
    write("mine.yaml", "execution: {config: {account: mine, qos: mine}}")
    text = "use: {profiles: [mine.yaml]}\nexecution: {config: {qos: own, constraint: own}}\n" + NOTHING_TO_DO
    loaded = workflow(text, sets=["execution.config.constraint=typed"])
    assert loaded.execution.config == {
        "account": "mine",
        "qos": "own",
        "constraint": "typed",
        "scratch": "/scratch/$USER",
    }


def test_values_know_that_they_come_from_the_site(site: Callable[[str], Path], workflow: Load) -> None:
    path = site(SITE)
    origin = workflow(NOTHING_TO_DO).origin("execution", "config", "account")
    assert origin is not None
    assert origin.layer == "site (mysite)"
    assert origin.place is not None
    assert (origin.place.file, origin.place.line) == (str(path), 5)


def test_pools_of_the_site_are_for_workflows_that_have_none(site: Callable[[str], Path], workflow: Load) -> None:
    site(SITE)
    loaded = workflow("execution: {pools: {mine: {use: standard_worker}}}\n" + NOTHING_TO_DO)
    assert [one.name for one in loaded.execution.pools] == ["mine"]
    assert loaded.execution.defaults.cpu is None
    assert pool(loaded, "mine").workers == 20


def test_the_command_line_may_change_a_pool_of_the_site(site: Callable[[str], Path], workflow: Load) -> None:
    site(SITE)
    assert pool(workflow(NOTHING_TO_DO, sets=["execution.pools.short.workers=3"]), "short").workers == 3


@pytest.mark.parametrize("command_line", [{"strategy": "local"}, {"backend": "local"}])
def test_a_run_on_this_machine_asks_no_batch_system_of_the_site(
    site: Callable[[str], Path], read: Read, command_line: dict[str, str]
) -> None:
    site(SITE)
    text = "execution: {pools: {gpu: {use: gpu_worker}, cpu: {use: standard_worker}}}\n" + NOTHING_TO_DO
    checked = read(text, **command_line)
    assert checked.problems == ()
    assert checked.warnings == ()
    assert checked.workflow is not None
    execution = checked.workflow.execution
    assert (execution.backend, execution.strategy) == ("local", "local")
    assert [one.strategy for one in execution.pools] == [None, None]


def test_a_workflow_may_ask_for_this_machine_too(site: Callable[[str], Path], workflow: Load) -> None:
    site(SITE)
    assert workflow("execution: {strategy: local}\n" + NOTHING_TO_DO).execution.backend == "local"
    on_dask = workflow("execution: {backend: dask, strategy: local}\n" + NOTHING_TO_DO).execution
    assert (on_dask.backend, on_dask.strategy) == ("dask", "local")


def test_settings_of_the_site_for_another_batch_system_are_left_out_without_a_warning(
    site: Callable[[str], Path], read: Read
) -> None:
    site(SITE)
    text = "execution: {pools: {p: {use: gpu_worker, strategy: slurm}}}\n" + NOTHING_TO_DO
    assert read(text).warnings == ()
    own = "execution: {pools: {p: {use: gpu_worker, strategy: slurm, config: {job_flavour: espresso}}}}\n"
    assert any("job_flavour" in warning for warning in read(own + NOTHING_TO_DO).warnings)


def test_a_site_may_put_its_file_together_from_several(
    site: Callable[[str], Path], write: Write, workflow: Load
) -> None:
    write("sites/profiles.yaml", "pool_profiles: {big: {workers: 7}}")
    site("include: profiles.yaml\nsite: {name: mysite}\n")
    loaded = workflow("execution: {pools: {p: {use: big}}}\n" + NOTHING_TO_DO)
    assert pool(loaded, "p").workers == 7
    origin = loaded.origin("execution", "pools", "p", "workers")
    assert origin is not None
    assert origin.layer == "site (mysite)"


# --- what is wrong with it


def test_a_mistake_of_the_site_is_told_with_its_file_and_whom_to_tell(site: Callable[[str], Path], read: Read) -> None:
    path = site("""
        site: {name: mysite, contact: help@example.org}
        execution:
          config: {acount: hep}
        """)
    (problem,) = read(NOTHING_TO_DO).problems
    assert str(problem.place) == f"{path}:3:12"
    assert problem.hint == "did you mean 'account'?"
    assert problem.details[-1] == (
        "this is your site's configuration file: report it to help@example.org, or ignore it with CENOTE_SITE=none"
    )


def test_of_several_mistakes_only_the_last_says_whose_they_are(site: Callable[[str], Path], read: Read) -> None:
    site("site: {name: mysite}\nexecution:\n  config:\n    acount: hep\n    prot: 1\n")
    first, last = read(NOTHING_TO_DO).problems
    assert not any("your site's configuration" in detail for detail in first.details)
    assert any("your site's configuration" in detail for detail in last.details)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("site: {name: s}\nanalysis: {stages: []}\n", "there is no key 'analysis' in the site configuration file"),
        ("site: {name: s}\nuse: {profiles: [mine]}\n", "there is no key 'use' in the site configuration file"),
        (
            "site: {name: s}\nexecution: {profiles: [mine]}\n",
            "a site configuration file cannot name profiles; use `include`",
        ),
        ("site: {nam: s}\n", "there is no key 'nam' in 'site'"),
    ],
)
def test_a_site_has_no_say_in_what_is_computed(
    site: Callable[[str], Path], read: Read, text: str, message: str
) -> None:
    site(text)
    assert message in [problem.message for problem in read(NOTHING_TO_DO).problems]
