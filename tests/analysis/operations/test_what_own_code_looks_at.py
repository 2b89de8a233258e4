"""Check what results of own code depend on beyond columns: what the code names, and nothing else can be looked at."""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from cenote.analysis.operations.interface import Operation
from cenote.analysis.operations.support.own_code import LooksUnnamedError, Unseen
from cenote.language.plugins import own_files, registry
from cenote.language.plugins.kinds import PluginKind
from cenote.testing.sample_events import sample_events

WHOLE = {"dataset", "datasets", "constants"}


@pytest.fixture(autouse=True)
def _own_registry() -> Iterator[None]:
    restore = registry.forget_added()
    yield
    restore()


def an_operation(folder: Path, body: str, *, above: str = "", **others: str) -> Operation:
    """The operation `own` of a plugin file; `others` are modules beside it."""
    for name, text in others.items():
        (folder / f"{name}.py").write_text(text)
    file = folder / "ops.py"
    own = f'@operation("own", reads=["MET"], adds=["found"])\ndef own(events):\n    {body}\n'
    file.write_text(f"from cenote import operation\n{above}\n{own}")
    registry.add_file(file)
    made: Operation = registry.load(PluginKind.OPERATION, "own").model_validate({}).for_stage("Own")
    return made


def seen_by(made: Operation) -> set[str]:
    events = sample_events()
    return set(made.sees(events.dataset, events.datasets, events.constants))


def test_code_that_names_none_of_it_sees_columns_only(tmp_path: Path) -> None:
    made = an_operation(tmp_path, '"""Of the dataset."""\n    return {"found": events["MET"] * 2}')
    assert seen_by(made) == set()
    assert made.run(sample_events()).events["found"].tolist() == (sample_events()["MET"] * 2).tolist()


def test_a_scope_looks_at_nothing(tmp_path: Path) -> None:
    other = '@operation("other", reads=["MET"], scope="dataset", product="sum")\ndef other(events):\n    return 1\n'
    assert seen_by(an_operation(tmp_path, 'return {"found": events["MET"]}', above=other)) == set()


@pytest.mark.parametrize(
    ("body", "named"),
    [
        ('return {"found": events["MET"] * (events.dataset.name == "dy")}', {"dataset"}),
        ('return {"found": events["MET"] * events.constants["LUMI"]}', {"constants"}),
        ('return {"found": events["MET"] * len(events.datasets)}', {"dataset", "datasets"}),
        ('return {"found": events["MET"] * getattr(events, "constants")["LUMI"]}', {"constants"}),
        (
            'match events:\n        case object(constants=one): return {"found": events["MET"] * len(one)}',
            {"constants"},
        ),
    ],
)
def test_code_sees_what_it_names(tmp_path: Path, body: str, named: set[str]) -> None:
    made = an_operation(tmp_path, body)
    assert seen_by(made) == named
    made.run(sample_events())


def test_variables_and_modules_may_be_called_so(tmp_path: Path) -> None:
    body = 'dataset = constants.UP; return {"found": events["MET"] * dataset}'
    made = an_operation(tmp_path, body, above="import constants", constants="UP = 2\n")
    assert seen_by(made) == set()
    assert made.run(sample_events()).events["found"].tolist() == (sample_events()["MET"] * 2).tolist()


def test_a_module_beside_it_counts(tmp_path: Path) -> None:
    helper = "from other import name\n"
    other = "def name(events):\n    return events.dataset.name\n"
    body = 'return {"found": events["MET"] * (name(events) == "dy")}'
    made = an_operation(tmp_path, body, above="from helper import name", helper=helper, other=other)
    assert seen_by(made) == {"dataset"}


@pytest.mark.parametrize(
    "above", ["from cenote.analysis.operations.support.evaluation import evaluate", "import cenote.api"]
)
def test_beside_functions_from_within_cenote_everything_counts(tmp_path: Path, above: str) -> None:
    assert seen_by(an_operation(tmp_path, 'return {"found": events["MET"]}', above=above)) == WHOLE


def test_where_there_is_no_source_everything_counts() -> None:
    from cenote import operation

    @operation("own", adds=["found"])
    def own(events: Any) -> Any:
        return {"found": events.size}

    registry.add(PluginKind.OPERATION, "own", own.cenote_factory)  # type: ignore[attr-defined]  # the decorator's
    assert seen_by(registry.load(PluginKind.OPERATION, "own").model_validate({})) == WHOLE


@pytest.mark.parametrize(
    "look",
    [
        "getattr(events, 'data' + 'set').name",
        "getattr(events, 'data' + 'sets')[0]",
        "str(getattr(events, 'const' + 'ants'))",
        "'LUMI' in getattr(events, 'const' + 'ants')",
        "isinstance(getattr(events, 'const' + 'ants'), dict)",
        "[str(one) for one in vars(events).values()]",
        "getattr(events, 'data' + 'set') == 1",
        "bool(getattr(events, 'data' + 'sets'))",
        "str(events)",
    ],
)
@pytest.mark.parametrize("caught", [False, True])
def test_code_that_looks_without_naming_it_is_an_error(tmp_path: Path, look: str, caught: bool) -> None:
    body = f"try:\n        {look}\n    except Exception:\n        {'pass' if caught else 'raise'}\n"
    made = an_operation(tmp_path, f'{body}    return {{"found": events["MET"]}}')
    assert seen_by(made) == set()
    with pytest.raises(
        LooksUnnamedError, match=r"operation 'own' looks at `events\.\w+`, which its code does not name"
    ):
        made.run(sample_events())


def test_columns_can_be_selected_where_nothing_is_named(tmp_path: Path) -> None:
    body = 'few = events.where(events["MET"] > 1e9); return {"found": events["MET"] * (len(few) + 1)}'
    assert an_operation(tmp_path, body).run(sample_events()).events["found"].tolist() == sample_events()["MET"].tolist()


def test_what_cannot_be_seen_travels_to_processes_of_own_code() -> None:
    looked: list[str] = []
    events = replace(sample_events(), constants=Unseen("hidden", looked))  # type: ignore[arg-type]  # it holds none
    arrived = pickle.loads(pickle.dumps(events))
    assert looked == []
    with pytest.raises(LooksUnnamedError, match="hidden"):
        len(arrived.constants)


def test_a_worker_judges_code_as_the_driver_did(tmp_path: Path) -> None:
    for body, named in ((("events.dataset"), ("dataset",)), ("events.size", ())):
        folder = tmp_path / (named or ("none",))[0]
        folder.mkdir()
        made = an_operation(folder, f'{body}; return {{"found": events["MET"]}}')
        assert made.mentions == named
        target = str(folder / "ops.py")
        sources = own_files.sources_of([target])
        registry.forget_added()
        registry.add_travelled(target, None, None, pickle.loads(pickle.dumps(sources)))
        assert registry.load(PluginKind.OPERATION, "own").mentions == named
