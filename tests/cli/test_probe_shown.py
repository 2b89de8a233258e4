"""Test what people see of a probe: while it waits, and what it found."""

from __future__ import annotations

import io

from rich.console import Console

from cenote.cli.views.progress.probe import NewsLines, in_words, probe_progress_on
from cenote.cli.views.tables.probe import in_short, show_probe
from cenote.execution.probe.run import PoolProbe, ProbeResult
from cenote.planning.probes.result import Finding

WELL = PoolProbe("default", "slurm", "over", "17", findings=(Finding("job", "ok", "ran on node07 as job 17"),))
FAILED = Finding(
    "job",
    "problem",
    "job 18 ended without a report (FAILED: it ended with exit code 3)",
    hint="see its last output",
    lines=("module: command not found",),
)
ILL = PoolProbe("gpu", "htcondor", "over", "18", findings=(FAILED,))


def shown(*pools: PoolProbe, jobs: bool = True) -> str:
    file = io.StringIO()
    console = Console(file=file, width=80, highlight=False, markup=False)
    show_probe(ProbeResult(pools, at=0.0, seconds=6.0, jobs=jobs), console)
    return "\n".join(line.rstrip() for line in file.getvalue().splitlines())


def test_pools_are_told_one_by_one_with_what_to_do() -> None:
    assert shown(WELL, ILL) == (
        "default (slurm) works\n"
        "  ok       job       ran on node07 as job 17\n"
        "\n"
        "gpu (htcondor) cannot work\n"
        "  problem  job       job 18 ended without a report (FAILED: it ended with exit\n"
        "                     code 3)\n"
        "                     │ module: command not found\n"
        "                     hint: see its last output\n"
        "\n"
        "2 pools probed in 6.0 s: default can work, gpu cannot"
    )


def test_without_jobs_it_is_said_that_there_is_only_this_machine() -> None:
    assert shown(WELL, jobs=False).startswith("this backend submits no jobs: only this machine can be probed")


def test_the_last_line_sums_up() -> None:
    assert in_short(ProbeResult((WELL,), 0.0, 2.0, jobs=True)) == "1 pool probed in 2.0 s: it can work"
    assert in_short(ProbeResult((ILL,), 0.0, 2.0, jobs=True)) == "1 pool probed in 2.0 s: it cannot work"
    assert in_short(ProbeResult((ILL, ILL), 0.0, 2.0, jobs=True)) == "2 pools probed in 2.0 s: none of them can work"


def test_a_job_that_waits_is_told_with_the_words_of_the_batch_system() -> None:
    assert (
        in_words(PoolProbe("gpu", "slurm", "waiting", "18", "PENDING: Priority")) == "job 18 waits: PENDING: Priority"
    )
    assert in_words(PoolProbe("gpu", "slurm", "asking", "", "sbatch did not answer")) == (
        "asking for a job: sbatch did not answer"
    )


def test_elsewhere_than_on_a_terminal_every_change_is_one_line() -> None:
    file = io.StringIO()
    with probe_progress_on(Console(file=file, width=80), quiet=False, title="flow.yaml") as progress:
        assert isinstance(progress, NewsLines)
        for phase in ("asking", "waiting", "waiting", "running", "reported", "over"):
            progress([PoolProbe("gpu", "slurm", phase, "18")])  # type: ignore[arg-type]

    assert file.getvalue() == "gpu: job 18 waits\ngpu: job 18 looks around\ngpu: job 18 has reported\n"


def test_on_a_terminal_there_is_a_line_for_each_pool_that_goes_away() -> None:
    file = io.StringIO()
    console = Console(file=file, width=60, force_terminal=True, color_system=None)
    with probe_progress_on(console, quiet=False, title="flow.yaml") as progress:
        progress.planning(1, 2)
        progress(
            [PoolProbe("default", "slurm", "running", "17"), PoolProbe("gpu", "slurm", "waiting", "18", "Priority")]
        )

    assert "flow.yaml probing for 1s" in file.getvalue()
    assert "gpu      job 18 waits: Priority" in file.getvalue()
