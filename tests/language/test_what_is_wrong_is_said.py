"""Test every kind of mistake: found, placed, explained, with the nearest match."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from textwrap import dedent

import pytest

import cenote
from cenote.common import errors
from cenote.common.errors import ErrorKind, Place
from cenote.common.text import with_article
from cenote.language.read import Checked

Read = Callable[..., Checked]


@dataclass(frozen=True)
class Mistake:
    """Text with one mistake in it, at the place marked », and what is to be said of it."""

    name: str
    marked: str
    kind: ErrorKind
    words: str
    hint: str | None = None

    @property
    def text(self) -> str:
        return self.marked.replace("»", "")

    @property
    def place(self) -> Place:
        before = self.marked.partition("»")[0]
        return Place("flow.yaml", before.count("\n") + 1, len(before) - before.rfind("\n"))


STAGES = "plugins: own_operations.py\nanalysis:\n  stages:\n"
AFTER = "\nanalysis: {stages: []}"
ONE_STAGE = STAGES + "    - {id: a, op: custom.scale}\n"

MISTAKES = [
    # keys
    Mistake("top level", "»analyis: {stages: []}", errors.UNKNOWN_KEY, "no key 'analyis'", "'analysis'"),
    Mistake("analysis", "analysis: {»stagse: []}", errors.UNKNOWN_KEY, "no key 'stagse'", "'stages'"),
    Mistake("data", "data: {»dataset: []}" + AFTER, errors.UNKNOWN_KEY, "no key 'dataset'", "'datasets'"),
    Mistake("use", "use: {»profile: hep}" + AFTER, errors.UNKNOWN_KEY, "no key 'profile'", "'profiles'"),
    Mistake(
        "pool name",
        "execution: {pools: {»a/b: {workers: 1}}}" + AFTER,
        errors.BAD_VALUE,
        "'a/b' cannot be the name",
        "'/'",
    ),
    Mistake(
        "pool without a name",
        'execution: {pools: {»"": {workers: 1}}}' + AFTER,
        errors.BAD_VALUE,
        "'' cannot be the name",
        "give it a name",
    ),
    Mistake(
        "credential's key",
        "execution: {credentials: {type: x509, »renewal: a}}" + AFTER,
        errors.UNKNOWN_KEY,
        "no key 'renewal'",
        "'renew'",
    ),
    Mistake(
        "credential twice",
        "execution: {credentials: [x509, {type: »x509, path: a}]}" + AFTER,
        errors.BAD_VALUE,
        "'x509' is named twice",
    ),
    Mistake(
        "stage",
        STAGES + "    - {id: a, op: custom.scale, »parmas: {}}",
        errors.UNKNOWN_KEY,
        "'parmas'",
        "'params'",
    ),
    Mistake(
        "require",
        STAGES + "    - {id: a, op: custom.scale, execution: {»requires: gpu}}",
        errors.UNKNOWN_KEY,
        "there is no key 'requires' in 'execution' of stage 'a'",
        "'require'",
    ),
    Mistake(
        "parameter",
        STAGES + "    - {id: a, op: custom.scale, params: {»facter: 2}}",
        errors.UNKNOWN_KEY,
        "there is no key 'facter' in the params of stage 'a'",
        "'factor'",
    ),
    Mistake("pool", "execution: {pools: {p: {»worker: 1}}}" + AFTER, errors.UNKNOWN_KEY, "pool 'p'", "'workers'"),
    Mistake(
        "elastic",
        "execution: {pools: {p: {elastic: {»maxx: 1, max: 2}}}}" + AFTER,
        errors.UNKNOWN_KEY,
        "'elastic'",
        "'max'",
    ),
    Mistake("execution", "execution: {»bakend: dask}" + AFTER, errors.UNKNOWN_KEY, "'bakend'", "'backend'"),
    Mistake("systematics", "systematics: {»variatons: []}" + AFTER, errors.UNKNOWN_KEY, "variatons", "'variations'"),
    Mistake("joins", "joins: {j: {inputs: [events], »knd: zip}}" + AFTER, errors.UNKNOWN_KEY, "'knd'", "'kind'"),
    Mistake(
        "applies_to",
        STAGES + "    - {id: a, op: custom.scale, applies_to: {»eventtyp: mc}}",
        errors.UNKNOWN_KEY,
        "'applies_to' of stage 'a'",
        "'eventtype'",
    ),
    # missing
    Mistake("no analysis", "»version: 1.0", errors.MISSING_KEY, "'analysis' is missing"),
    Mistake("no stages", "analysis: »{}", errors.MISSING_KEY, "'stages' is missing"),
    Mistake("no id", STAGES + "    - »{op: custom.scale}", errors.MISSING_KEY, "'id' is missing in stage number 1"),
    Mistake("no op", STAGES + "    - »{id: a}", errors.MISSING_KEY, "'op' is missing in stage 'a'"),
    Mistake(
        "no parameter",
        STAGES + "    - »{id: a, op: custom.model}",
        errors.MISSING_KEY,
        "'path' is missing in the params",
    ),
    Mistake(
        "another key for files",
        "data: {datasets: [»{name: a, file: a.root}]}" + AFTER,
        errors.MISSING_KEY,
        "'files' is missing",
        "did you mean 'files' instead of 'file'?",
    ),
    Mistake("no files", "data: {datasets: [»{name: a}]}" + AFTER, errors.MISSING_KEY, "'files' is missing"),
    Mistake("no maximum", "execution: {pools: {p: {elastic: »{min: 1}}}}" + AFTER, errors.MISSING_KEY, "'max'"),
    # types and units
    Mistake("stages no list", "analysis: {stages: »{a: b}}", errors.BAD_VALUE, "should be a list, not a mapping"),
    Mistake("a stage of words", STAGES + "    - »hep.hist", errors.BAD_VALUE, "should be a mapping, not 'hep.hist'"),
    Mistake("analysis no mapping", "analysis: »[a]", errors.BAD_VALUE, "should be a mapping, not a list"),
    Mistake("execution no mapping", "execution: »local" + AFTER, errors.BAD_VALUE, "should be a mapping, not 'local'"),
    Mistake("pools no mapping", "execution: {pools: »[a]}" + AFTER, errors.BAD_VALUE, "should be a mapping"),
    Mistake(
        "a pool of a number",
        "execution: {pools: {p: »4}}" + AFTER,
        errors.BAD_VALUE,
        "should be a mapping, not 4",
    ),
    Mistake("many workers", "execution: {pools: {p: {workers: »many}}}" + AFTER, errors.BAD_VALUE, "whole number"),
    Mistake("true workers", "execution: {pools: {p: {workers: »true}}}" + AFTER, errors.BAD_VALUE, "not true"),
    Mistake("half workers", "execution: {pools: {p: {workers: »1.5}}}" + AFTER, errors.BAD_VALUE, "whole number"),
    Mistake("minus workers", "execution: {pools: {p: {workers: »-1}}}" + AFTER, errors.BAD_VALUE, "at least 0"),
    Mistake(
        "bits",
        "execution: {pools: {p: {resources: {memory: »4Gb}}}}" + AFTER,
        errors.BAD_VALUE,
        "'4Gb': 'Gb' means bits; did you mean '4GB'?",
    ),
    Mistake(
        "minutes or hours",
        "execution: {pools: {p: {queue_timeout: »10:00}}}" + AFTER,
        errors.BAD_VALUE,
        "could be minutes or hours",
    ),
    Mistake(
        "both sizes",
        "execution: {pools: {p: »{workers: 1, elastic: {max: 2}}}}" + AFTER,
        errors.BAD_VALUE,
        "not both",
    ),
    Mistake(
        "upside down",
        "execution: {pools: {p: {elastic: »{min: 3, max: 2}}}}" + AFTER,
        errors.BAD_VALUE,
        "not be more",
    ),
    Mistake(
        "no such class",
        "execution: {resources: {big: {cpus: 8}}, pools: {p: {resources: »bgi}}}" + AFTER,
        errors.BAD_VALUE,
        "there is no resource class 'bgi'",
        "'big'",
    ),
    Mistake(
        "parameter of the wrong type",
        STAGES + "    - {id: a, op: custom.scale, params: {factor: »much}}",
        errors.BAD_VALUE,
        "'factor' of the params of stage 'a': should be a number, not 'much'",
    ),
    Mistake(
        "eventtype",
        "data: {datasets: [{name: a, files: f, eventtype: »dta}]}" + AFTER,
        errors.BAD_VALUE,
        "should be 'data' or 'mc', not 'dta'",
        "'data'",
    ),
    Mistake(
        "scope",
        STAGES + "    - {id: a, op: custom.scale, scope: »rnu}",
        errors.BAD_VALUE,
        "'dataset' or 'run'",
        "'run'",
    ),
    Mistake("slash in a name", STAGES + "    - {id: »a/b, op: custom.scale}", errors.BAD_VALUE, "without slashes"),
    Mistake(
        "no files in the list",
        "data: {datasets: [{name: a, files: »[]}]}" + AFTER,
        errors.BAD_VALUE,
        "at least 1",
    ),
    Mistake("version", "version: »[7, 0]" + AFTER, errors.BAD_VALUE, "a number or text, not a list"),
    Mistake(
        "pool and label",
        ONE_STAGE + "    - {id: b, op: custom.scale, execution: »{pool: default, require: x}}",
        errors.BAD_VALUE,
        "exactly one pool",
    ),
    # names
    Mistake(
        "same id",
        ONE_STAGE + "    - {id: »a, op: custom.scale}",
        errors.DUPLICATE_ID,
        "two stages are named 'a'",
    ),
    Mistake(
        "same dataset",
        "data: {datasets: [{name: a, files: f}, {name: »a, files: g}]}" + AFTER,
        errors.DUPLICATE_ID,
        "two datasets are named 'a'",
    ),
    Mistake(
        "same prefix",
        "sources: {a: {}, b: {}}\njoins: {j: »{inputs: [a, {source: b, prefix: a}]}}" + AFTER,
        errors.BAD_VALUE,
        "two inputs of join 'j' have the prefix 'a'",
    ),
    Mistake(
        "same source and join",
        "sources: {events: {}}\njoins: {»events: {inputs: [events]}}" + AFTER,
        errors.DUPLICATE_ID,
        "a source and a join are both named 'events'",
    ),
    Mistake(
        "need",
        ONE_STAGE + "    - {id: b, op: custom.scale, needs: [»A1, a]}",
        errors.UNKNOWN_STAGE,
        "no stage 'A1'",
    ),
    Mistake(
        "from",
        ONE_STAGE + "    - {id: b, op: custom.scale, from: »event}",
        errors.UNKNOWN_STAGE,
        "there is no stage 'event'",
        "'events'",
    ),
    Mistake(
        "dataset",
        "data: {datasets: [{name: top, files: f}]}\n"
        + ONE_STAGE
        + "    - {id: b, op: custom.scale, applies_to: {datasets: [»tpo]}}",
        errors.UNKNOWN_STAGE,
        "there is no dataset 'tpo'",
        "'top'",
    ),
    Mistake("primary stream", "primary_stream: »evnts" + AFTER, errors.UNKNOWN_STAGE, "'evnts'", "'events'"),
    Mistake("stream of a field", "fields: {x: {stream: »evnts, branch: y}}" + AFTER, errors.UNKNOWN_STAGE, "evnts"),
    Mistake("side of a join", "joins: {j: {inputs: [»evnts]}}" + AFTER, errors.UNKNOWN_STAGE, "evnts", "'events'"),
    Mistake(
        "operation",
        STAGES + "    - {id: a, op: »custom.scael}",
        errors.UNKNOWN_OPERATION,
        "there is no operation 'custom.scael'",
        "'custom.scale'",
    ),
    Mistake(
        "source",
        "sources: {s: {kind: »rootree}}" + AFTER,
        errors.UNKNOWN_PLUGIN,
        "source 'rootree'",
        "root_tree",
    ),
    Mistake("backend", "execution: {backend: »lcoal}" + AFTER, errors.UNKNOWN_PLUGIN, "backend 'lcoal'"),
    Mistake("strategy", "execution: {strategy: »slurmm}" + AFTER, errors.UNKNOWN_PLUGIN, "strategy 'slurmm'"),
    Mistake(
        "strategy of a pool",
        "execution: {pools: {p: {strategy: »x}}}" + AFTER,
        errors.UNKNOWN_PLUGIN,
        "strategy 'x'",
    ),
    Mistake(
        "setting of a strategy",
        "execution: {strategy: slurm, pools: {p: {config: {»partitoin: gpu}}}}" + AFTER,
        errors.UNKNOWN_KEY,
        "there is no key 'partitoin' in 'config' of pool 'p' (slurm)",
        "'partition'",
    ),
    Mistake(
        "setting that no strategy has",
        "execution: {pools: {p: {config: {»waltime: 04:00:00}}}}" + AFTER,
        errors.UNKNOWN_KEY,
        "there is no key 'waltime' in 'config' of pool 'p' (local)",
        "'walltime'",
    ),
    Mistake(
        "value of a setting",
        "execution: {pools: {p: {strategy: htcondor, config: {walltime: »soon}}}}" + AFTER,
        errors.BAD_VALUE,
        "'soon' is not a time",
    ),
    Mistake(
        "minutes without their unit",
        "execution: {pools: {p: {strategy: slurm, config: {walltime: »10}}}}" + AFTER,
        errors.BAD_VALUE,
        "10 seconds are too short for a worker: write minutes as 10m",
    ),
    Mistake(
        "value of a setting of another strategy",
        "execution: {pools: {p: {config: {walltime: »soon}}}}" + AFTER,
        errors.BAD_VALUE,
        "'soon' is not a time",
    ),
    Mistake(
        "setting for all pools",
        "execution: {config: {»acount: hep}}" + AFTER,
        errors.UNKNOWN_KEY,
        "there is no key 'acount' in 'execution.config'",
        "'account'",
    ),
    Mistake("modifier", "execution: {modifiers: [»nothing.known]}" + AFTER, errors.UNKNOWN_PLUGIN, "'nothing.known'"),
    Mistake(
        "renderer",
        STAGES + "    - {id: a, op: custom.scale, render: {op: »hep.render.hist1}}",
        errors.UNKNOWN_PLUGIN,
        "renderer 'hep.render.hist1'",
        "hep.render.hist1d",
    ),
    Mistake(
        "sink",
        STAGES + "    - {id: a, op: custom.scale, write: {kind: »rot, path: x}}",
        errors.UNKNOWN_PLUGIN,
        "'rot'",
    ),
    Mistake(
        "pool of a stage",
        "execution: {pools: {gpu: {}}}\n" + STAGES + "    - {id: a, op: custom.scale, execution: {pool: »gpus}}",
        errors.UNKNOWN_POOL,
        "there is no pool 'gpus', named as 'pool' of stage 'a'",
        "'gpu'",
    ),
    Mistake(
        "preferred pool",
        "execution: {pools: {gpu: {}}}\n" + STAGES + "    - {id: a, op: custom.scale, execution: {prefer: »gpus}}",
        errors.UNKNOWN_POOL,
        "'prefer' of stage 'a'",
        "'gpu'",
    ),
    Mistake(
        "fallback of a stage",
        "execution: {pools: {gpu: {}}}\n"
        + STAGES
        + "    - {id: a, op: custom.scale, execution: {prefer: gpu, fallback: [»g]}}",
        errors.UNKNOWN_POOL,
        "'fallback' of stage 'a'",
    ),
    Mistake(
        "fallback of a pool",
        "execution: {pools: {a: {fallback: »b}}}" + AFTER,
        errors.UNKNOWN_POOL,
        "fallback of pool 'a'",
    ),
    Mistake(
        "default pool",
        "execution: {defaults: {gpu: »gp}, pools: {gpu: {}}}" + AFTER,
        errors.UNKNOWN_POOL,
        "the default pool",
        "'gpu'",
    ),
    # plugins
    Mistake("plugin file", "plugins: [»nothing.py]" + AFTER, errors.MISSING_FILE, "nothing.py does not exist"),
    Mistake("plugin package", "plugins: [»not_there_at_all]" + AFTER, errors.BAD_PLUGIN, "cannot be imported"),
    Mistake("plugin number", "plugins: [»5]" + AFTER, errors.BAD_VALUE, "Python files and names of packages"),
    Mistake(
        "registry kind",
        "registry: {»transform: {}}" + AFTER,
        errors.UNKNOWN_KEY,
        "no kind of plugin",
        "'transforms'",
    ),
    Mistake("registry entry", "registry: {sources: {x: »{}}}" + AFTER, errors.BAD_VALUE, "needs impl"),
    Mistake(
        "registry import",
        "registry: {sources: {x: {impl: »'nowhere.to:be'}}}" + AFTER,
        errors.BAD_PLUGIN,
        "cannot be imported",
    ),
    # styles and layouts
    Mistake(
        "style",
        "styles: {plain: {op: hep.render.hist1d}}\n" + STAGES + "    - {id: a, op: custom.scale, render: »plan}",
        errors.BAD_VALUE,
        "there is no style 'plan'",
        "'plain'",
    ),
    Mistake("style of a style", "styles: {a: {use: »b}}" + AFTER, errors.BAD_VALUE, "there is no style 'b'"),
    Mistake("styles in a circle", "styles: {a: {use: b}, b: {use: »a}}" + AFTER, errors.INCLUDE_CYCLE, "in a circle"),
    Mistake(
        "no renderer",
        STAGES + "    - {id: a, op: custom.scale, render: »{out: x.png}}",
        errors.MISSING_KEY,
        "no renderer",
    ),
    Mistake(
        "layout",
        "outputs: {slim: {keep: [a]}}\n" + STAGES + "    - {id: a, op: custom.scale, write: {path: x, use: »slm}}",
        errors.BAD_VALUE,
        "no layout 'slm'",
        "'slim'",
    ),
]


@pytest.mark.parametrize("mistake", MISTAKES, ids=lambda mistake: mistake.name)
def test_a_mistake_is_found_placed_and_explained(read: Read, mistake: Mistake) -> None:
    checked = read(mistake.text)
    assert checked.workflow is None or mistake.kind is errors.UNKNOWN_POOL
    said = "\n".join(str(problem) for problem in checked.problems)
    assert len(checked.problems) == 1, said
    (problem,) = checked.problems
    assert (problem.kind, problem.place) == (mistake.kind, mistake.place), said
    assert mistake.words in problem.message, said
    assert mistake.hint is None or mistake.hint in (problem.hint or ""), said


def test_all_problems_are_reported_at_once_in_the_order_of_the_file(read: Read) -> None:
    checked = read(
        """
        plugins: own_operations.py
        data: {datasets: [{name: a, files: f, nevents: -1}]}
        analysis:
          stages:
            - {id: a, op: custom.scale, params: {facter: 1}, needs: [nobody], execution: {requires: gpu}}
            - {id: b, op: custom.scael}
            - 5
            - {id: c, op: custom.scale, needs: b}
        execution:
          pools:
            gpu: {workers: few}
            default: {resources: {memory: 4Gb}}
        """
    )
    assert [problem.place.line for problem in checked.problems if problem.place] == [2, 5, 5, 5, 6, 7, 11, 12]


def test_a_circle_of_needs_is_shown(read: Read) -> None:
    text = STAGES + "".join(f"    - {{id: {a}, op: custom.scale, needs: {b}}}\n" for a, b in ("ac", "ba", "cb"))
    (problem,) = read(text).problems
    assert problem.kind is errors.CYCLE
    assert problem.message == "stages need each other in a circle: a → c → b → a"


def test_a_stage_that_needs_itself_is_a_circle(read: Read) -> None:
    (problem,) = read(STAGES + "    - {id: a, op: custom.scale, needs: a}").problems
    assert problem.message == "stages need each other in a circle: a → a"


def test_a_plugin_file_that_fails_is_shown_with_its_line_and_explains_missing_operations(read: Read) -> None:
    Path("broken.py").write_text("x = 1\ny = 1 / 0\n")
    text = "plugins: [broken.py]\nanalysis: {stages: [{id: a, op: custom.from_broken}]}"
    (problem,) = read(text).problems
    assert problem.kind is errors.BAD_PLUGIN
    assert problem.place is not None
    assert (Path(problem.place.file).name, problem.place.line) == ("broken.py", 2)
    assert "ZeroDivisionError" in problem.message
    assert problem.details == ("named at flow.yaml:1:11",)


def test_a_function_without_the_decorator_is_no_operation(read: Read) -> None:
    text = """
        registry: {transforms: {custom.join: {impl: "os.path:join"}}}
        analysis: {stages: [{id: a, op: custom.join}]}
    """
    (problem,) = read(text).problems
    assert problem.kind is errors.BAD_PLUGIN
    assert "@operation" in (problem.hint or "")


@pytest.mark.parametrize(("word", "kind"), [("sources", "source"), ("transforms", "operation"), ("render", "renderer")])
def test_a_function_is_no_plugin_of_any_other_kind(tmp_path: Path, word: str, kind: str) -> None:
    flow = tmp_path / "flow.yaml"
    flow.write_text(
        dedent(f"""\
            registry: {{{word}: {{mine: {{impl: "os.path:join"}}}}}}
            data: {{datasets: [{{name: d, files: [d.root]}}]}}
            sources: {{events: {{kind: {"mine" if kind == "source" else "root_tree"}}}}}
            analysis: {{stages: [{{id: a, op: {"mine" if kind == "operation" else "define"}, params: {{x: "1"}}}}]}}
            """)
    )
    first, *_ = cenote.load(flow).check().problems
    assert first.kind is errors.BAD_PLUGIN
    assert f"{kind} 'mine' (os.path:join) is not {with_article(kind)}: it is a function" in first.message
    assert first.place is not None
    assert first.place.line == 1


def test_metadata_that_looks_like_a_slip_of_the_pen_is_a_warning(read: Read) -> None:
    checked = read("data: {datasets: [{name: a, files: f, eventype: mc, xsec: 3}]}" + AFTER)
    assert checked.problems == ()
    assert checked.warnings == (
        "flow.yaml:1:39: 'eventype' is kept as metadata of dataset 'a'; did you mean 'eventtype'?",
    )


def test_thousands_of_broken_stages_are_reported_in_seconds(read: Read) -> None:
    text = dedent(STAGES) + "".join(f"    - {{id: s{n}, op: custom.scale, needs: nobody{n}}}\n" for n in range(3000))
    checked = read(text)
    assert len(checked.problems) == 3000
