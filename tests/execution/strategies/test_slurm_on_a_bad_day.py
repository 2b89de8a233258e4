"""Slurm refuses, hangs, garbles, forgets and comes back: each is told in its own words, and no job is made up."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from cenote.common.errors import JOB_REFUSED, CenoteError
from cenote.engine.messages import JobState, LossCause
from cenote.execution.launch import WORKER, Launch, RunLocation
from cenote.execution.strategies.interface import JobId, JobStatus
from cenote.execution.strategies.slurm.queue import STATES, own_jobs
from cenote.execution.strategies.slurm.strategy import Slurm
from cenote.language.execution import Amounts
from cenote.testing.launches import a_launch
from cenote.testing.scripted_shell import HANGS, Reply, complains, scripted_shell

FORGOTTEN = complains("slurm_load_jobs error: Invalid job id specified")
DOWN = complains("slurm_load_jobs error: Unable to contact slurm controller (connect failure)")
JOB = JobId("7")


class Clock:
    """A clock that somebody else turns."""

    now = 100.0

    def __call__(self) -> float:
        return self.now


def slurm(**settings: object) -> tuple[Slurm, Clock]:
    made, clock = Slurm.model_validate(settings), Clock()
    made._clock = clock
    return made, clock


LAUNCH = a_launch("python", "--name", WORKER, pool="cpu")


def rendered(made: Slurm, launch: Launch = LAUNCH) -> str:
    (script,) = made.render(launch, ["cpu-1"])
    return script


def ended(state: str, *, reason: str = "None", exit_code: str = "0:0") -> Reply:
    return Reply(f"JobId=7 JobName=x JobState={state} Reason={reason} Dependency=(null) ExitCode={exit_code} Power=\n")


def directives(script: str) -> list[str]:
    return [line.removeprefix("#SBATCH ") for line in script.splitlines() if line.startswith("#SBATCH")]


def test_settings_become_directives() -> None:
    made, _ = slurm(
        partition="gpu",
        account="hep",
        qos="high",
        constraint="a100",
        walltime="04:00:00",
        gpu_type="a100",
        nodelist="n[1-4]",
        exclude="n3",
        directives=["--reservation=x"],
        prologue=["module load cuda"],
    )
    script = rendered(made, replace(LAUNCH, resources=Amounts(cpus=2.5, memory=2**30, gpus=2)))
    assert {
        "--partition=gpu",
        "--account=hep",
        "--qos=high",
        "--constraint=a100",
        "--time=04:00:00",
        "--gres=gpu:a100:2",
        "--nodelist=n[1-4]",
        "--exclude=n3",
        "--reservation=x",
        "--no-requeue",
        "--cpus-per-task=3",
        "--mem=1024M",
        '--comment="cenote run=r1 pool=cpu"',
    } <= set(directives(script))
    assert script.splitlines()[-2:] == ["module load cuda", "exec python --name cpu-1"]


def test_jobs_get_the_usual_variables_and_those_that_are_named_and_no_others(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("LC_TIME", "ANALYSIS_TAG", "X509_USER_PROXY", "BEARER_TOKEN_FILE", "OWNER_SECRET"):
        monkeypatch.setenv(name, "x")
    launch = replace(LAUNCH, passed=("ANALYSIS_*",))
    (written,) = [one for one in directives(rendered(slurm()[0], launch)) if one.startswith("--export=")]
    names = {*written.removeprefix("--export=").split(",")}
    assert {"HOME", "PATH", "LC_TIME", "ANALYSIS_TAG"} <= names
    assert not {"X509_USER_PROXY", "BEARER_TOKEN_FILE", "OWNER_SECRET", "ALL"} & names
    monkeypatch.setenv("SBATCH_EXPORT", "ALL")
    with scripted_shell(sbatch="7") as shell:
        slurm()[0].submit(launch, ["cpu-1"])
    assert written in shell.typed[0], "what a shell says would count for more than the script"


CLUSTER = """
main|8|16000|(null)|1-00:00:00
big|64|512000|(null)|infinite
gpu|16|64000|gpu:a100:4(S:0-1),nvme:1|08:00:00
"""
NO_NODE = "sbatch: error: Batch job submission failed: Requested node configuration is not available"


@pytest.mark.parametrize(
    ("wanted", "settings", "said", "hint"),
    [
        (
            Amounts(memory=128 * 2**30),
            {},
            NO_NODE,
            "these could hold it: big; choose one by `config: {partition: big}`",
        ),
        (Amounts(gpus=2), {}, NO_NODE, "these could hold it: gpu;"),
        (Amounts(cpus=8), {}, NO_NODE, "these could hold it: big, gpu, main;"),
        (
            Amounts(gpus=2),
            {"walltime": "9h"},
            NO_NODE,
            "no partition has a node with 2 GPUs for that long; there are: big, gpu, main",
        ),
        (Amounts(cpus=65), {}, NO_NODE, "no partition has a node with 65 CPUs"),
        (
            Amounts(),
            {"partition": "bgi"},
            "sbatch: error: invalid partition specified: bgi",
            "hold it: big, gpu, main;",
        ),
        (Amounts(), {}, "sbatch: error: Invalid account or account/partition combination", None),
        (Amounts(), {}, "sbatch: error: Invalid qos", None),
    ],
)
def test_a_job_that_is_refused_for_its_size_is_told_where_it_could_go(
    wanted: Amounts, settings: dict[str, str], said: str, hint: str | None
) -> None:
    with (
        scripted_shell(sbatch=Reply(err=said, code=1), sinfo=CLUSTER, scancel=""),
        pytest.raises(CenoteError) as caught,
    ):
        slurm(**settings)[0].submit(replace(LAUNCH, resources=wanted), ["cpu-1"])
    (problem,) = caught.value.problems
    assert problem.kind is JOB_REFUSED
    assert said.removeprefix("sbatch: error: ") in problem.message
    assert (problem.hint is None) == (hint is None)
    assert (hint or "") in (problem.hint or "")


@pytest.mark.parametrize(
    ("walltime", "shown"), [("4h", "04:00:00"), ("90s", "00:02:00"), ("2d", "2-00:00:00"), (3600, "01:00:00")]
)
def test_a_walltime_is_written_as_slurm_reads_it(walltime: object, shown: str) -> None:
    assert f"--time={shown}" in directives(rendered(slurm(walltime=walltime)[0]))


def test_the_disk_is_asked_for_only_where_the_site_counts_it() -> None:
    wanted = replace(LAUNCH, resources=Amounts(disk=10 * 2**30))
    assert "--tmp=10240M" in directives(rendered(slurm(tmp=True)[0], wanted))
    assert "--tmp" not in rendered(slurm()[0], wanted)


def test_a_job_says_where_its_run_lives_and_is_found_again_though_the_site_writes_its_own_comments() -> None:
    home = RunLocation("login", Path("/a b/out"))
    assert '--comment="cenote run=r1 pool=cpu home=login:/a%20b/out"' in directives(
        rendered(slurm()[0], a_launch("python", pool="cpu", location=home))
    )
    seen = (
        "7_3|PENDING|2026-11-16T02:27:29|cenote-r1-big_cpu-1|cenote run=r1 pool=big_cpu home=login:/a%20b/out\n"
        "8|RUNNING|N/A|cenote-r1-big_cpu-4|stdout=/elsewhere\n"
        "9|RUNNING|N/A|cenote|(null)\n"
    )
    with scripted_shell(squeue=seen):
        array, single = slurm()[0].trace("r1")
    assert (array.job, array.pool, array.worker, array.home) == ("7_3", "big_cpu", "big_cpu-3", home)
    assert (single.job, single.pool, single.worker, single.home) == ("8", "big_cpu", "big_cpu-4", None)
    assert array.since is not None
    assert single.since is None


def test_many_workers_are_one_array_whose_numbers_are_those_of_the_workers() -> None:
    made, _ = slurm()
    with scripted_shell(sbatch="41;cluster\n") as shell:
        jobs = made.submit(LAUNCH, [f"cpu-{number}" for number in (1, 2, 3, 9)])
    assert jobs == ["41_1", "41_2", "41_3", "41_9"]
    (script,) = shell.inputs
    assert {"--array=1-3,9", "--output=/run/out/cpu-%a"} <= set(directives(script))
    assert script.endswith('exec python --name cpu-"$SLURM_ARRAY_TASK_ID"\n')


def test_thousands_of_workers_are_an_array_for_each_thousand_because_slurm_has_no_larger_index() -> None:
    made, _ = slurm()
    with scripted_shell(sbatch=["41\n", "42\n", "43\n"]) as shell:
        jobs = made.submit(LAUNCH, [f"cpu-{number}" for number in range(990, 2001)])
    assert (jobs[0], jobs[9], jobs[10], jobs[1009], jobs[1010]) == ("41_990", "41_999", "42_0", "42_999", "43")
    first, second, third = shell.inputs
    assert "--array=990-999" in directives(first)
    assert {"--array=0-999", "--output=/run/out/cpu-1%3a"} <= set(directives(second))
    assert second.endswith('exec python --name cpu-1"$(printf %03d $SLURM_ARRAY_TASK_ID)"\n')
    assert third.endswith("exec python --name cpu-2000\n")
    with scripted_shell(squeue="42_7|PENDING|N/A|cenote-r1-cpu-1000|(null)\n"):
        (found,) = made.trace("r1")
    assert (found.pool, found.worker) == ("cpu", "cpu-1007")


def test_names_that_end_in_no_number_are_jobs_of_their_own() -> None:
    made, _ = slurm()
    with scripted_shell(sbatch=["41\n", "42\n"]):
        assert made.submit(LAUNCH, ["first", "second"]) == ["41", "42"]


@pytest.mark.parametrize(
    ("folder", "shown"),
    [
        ("/home/o'brien", '"/home/o\'brien/out/cpu-1"'),
        ("/data/run#7", '"/data/run#7/out/cpu-1"'),
        ('/data/a "b"', r'"/data/a \"b\"/out/cpu-1"'),
    ],
)
def test_folders_may_be_called_anything(folder: str, shown: str) -> None:
    assert f"--output={shown}" in directives(rendered(slurm()[0], a_launch("python", pool="cpu", folder=Path(folder))))


def test_a_refused_submission_is_told_in_slurms_words_and_leaves_nothing_behind() -> None:
    made, _ = slurm()
    words = "sbatch: error: Batch job submission failed: Requested node configuration is not available"
    with scripted_shell(sbatch=["41\n", complains(words)], scancel="") as shell, pytest.raises(CenoteError) as caught:
        made.submit(LAUNCH, ["a", "b"])
    (problem,) = caught.value.problems
    assert (problem.kind.name, problem.message) == ("job-refused", words)
    assert ("scancel", "41") in shell.typed


@pytest.mark.parametrize(
    "reply",
    [
        complains("sbatch: error: Batch job submission failed: Unable to contact slurm controller (connect failure)"),
        complains("sbatch: error: Batch job submission failed: Socket timed out on send/recv operation"),
        HANGS,
        Reply("Welcome to the cluster!\n"),
    ],
    ids=["down", "slow", "silent", "garbled"],
)
def test_a_submission_that_may_work_later_is_not_a_refusal_and_what_may_have_been_taken_is_cancelled(
    reply: Reply,
) -> None:
    made, _ = slurm()
    with scripted_shell(sbatch=reply, scancel="") as shell, pytest.raises(CenoteError) as caught:
        made.submit(LAUNCH, ["cpu-1"])
    assert caught.value.problems[0].kind.transient
    assert ("scancel", "--name=cenote-r1-cpu-1") in shell.typed


def test_a_hanging_squeue_is_left_alone_for_a_while() -> None:
    made, clock = slurm()
    with scripted_shell(squeue=HANGS) as shell:
        assert made.poll([JOB]) == {}
        clock.now += 10
        assert made.poll([JOB]) == {}
        assert shell.times("squeue") == 1
        clock.now += 60
        shell.says("squeue", "7|RUNNING|None\n")
        assert made.poll([JOB])[JOB].state is JobState.RUNNING


def test_a_controller_that_is_down_for_a_minute_ends_no_job() -> None:
    made, clock = slurm()
    with scripted_shell(squeue=DOWN, scontrol=DOWN) as shell:
        for _ in range(12):
            clock.now += 5
            assert made.poll([JOB]) == {}
        shell.says("squeue", "7|RUNNING|None\n")
        assert made.poll([JOB])[JOB].state is JobState.RUNNING


def test_garbled_output_ends_no_job() -> None:
    made, clock = slurm()
    with scripted_shell(squeue="slurm_load_\x00jobs: ?!\n8|RUNNING|None\n", scontrol=FORGOTTEN):
        for _ in range(3):
            clock.now += 100
            assert made.poll([JOB, JobId("8")]) == {"8": JobStatus(JobState.RUNNING, "RUNNING")}


def test_a_job_that_vanished_is_asked_for_again_before_it_counts_as_lost() -> None:
    made, clock = slurm()
    with scripted_shell(squeue="", scontrol=FORGOTTEN):
        assert made.poll([JOB])[JOB].state is JobState.UNKNOWN
        assert made.poll([JOB])[JOB].state is JobState.UNKNOWN  # at once is not again
        clock.now += 5
        lost = made.poll([JOB])[JOB]
    assert (lost.state, lost.reason) == (JobState.FAILED, "Slurm no longer knows it")


def test_a_job_that_was_out_of_sight_once_may_come_back() -> None:
    made, clock = slurm()
    with scripted_shell(squeue=FORGOTTEN, scontrol=FORGOTTEN) as shell:
        made.poll([JOB])
        shell.says("squeue", "7|PENDING|Resources\n")
        clock.now += 5
        assert made.poll([JOB])[JOB] == JobStatus(JobState.PENDING, "PENDING", "Resources")
        shell.says("squeue", "")
        clock.now += 5
        assert made.poll([JOB])[JOB].state is JobState.UNKNOWN


def test_a_job_that_left_the_queue_is_still_known_to_scontrol() -> None:
    made, _ = slurm()
    with scripted_shell(squeue="", scontrol=ended("COMPLETED")):
        assert made.poll([JOB])[JOB].state is JobState.ENDED


def test_a_foreign_word_stays_unknown() -> None:
    made, _ = slurm()
    with scripted_shell(squeue="7|HIBERNATING|None\n"):
        assert made.poll([JOB])[JOB] == JobStatus(JobState.UNKNOWN, "HIBERNATING")


@pytest.mark.parametrize(
    ("reply", "state", "cause", "words"),
    [
        (ended("TIMEOUT", reason="TimeLimit", exit_code="0:15"), JobState.ENDED, "walltime", "TIMEOUT (TimeLimit)"),
        (ended("PREEMPTED"), JobState.FAILED, "preempted", "PREEMPTED"),
        (ended("NODE_FAIL", reason="NodeDown"), JobState.FAILED, "died", "NODE_FAIL (NodeDown)"),
        (ended("OUT_OF_MEMORY", exit_code="0:125"), JobState.FAILED, "oom", "OUT_OF_MEMORY"),
        (ended("CANCELLED", exit_code="0:15"), JobState.FAILED, "died", "CANCELLED"),
        (ended("FAILED", reason="NonZeroExitCode", exit_code="3:0"), JobState.FAILED, "died", "exit code 3"),
        (ended("FAILED", exit_code="0:9"), JobState.FAILED, "died", "killed by SIGKILL"),
        (ended("COMPLETED"), JobState.ENDED, "retired", ""),
    ],
    ids=lambda value: value.out.split()[2] if isinstance(value, Reply) else "",
)
def test_how_a_job_ended_is_told_in_slurms_words(reply: Reply, state: JobState, cause: LossCause, words: str) -> None:
    made, _ = slurm()
    word = reply.out.split("JobState=")[1].split()[0]
    with scripted_shell(squeue=f"7|{word}|None\n", scontrol=reply):
        found = made.poll([JOB])[JOB]
    assert (found.state, found.cause, found.native) == (state, cause, word)
    assert words in found.reason


def test_a_kill_for_memory_without_cgroups_is_found_in_the_errors_of_the_job(tmp_path: Path) -> None:
    made, _ = slurm()
    launch = a_launch("python", pool="cpu", folder=tmp_path)
    launch.run.make_folders()
    (launch.run.folder("err") / "cpu-1").write_text(
        "slurmstepd: error: Step 7.batch exceeded memory limit (3000 > 1000), being killed\n"
    )
    with scripted_shell(sbatch="7\n", squeue="7|FAILED|None\n", scontrol=ended("FAILED", exit_code="0:9")):
        made.submit(launch, ["cpu-1"])
        assert made.poll([JOB])[JOB].cause == "oom"


def test_jobs_of_an_array_are_told_apart_and_asked_about_once() -> None:
    made, _ = slurm()
    jobs = [JobId("7_1"), JobId("7_2"), JobId("7_3")]
    details = (
        "JobId=7 ArrayJobId=7 ArrayTaskId=3 JobState=RUNNING Reason=None ExitCode=0:0\n"
        "JobId=9 ArrayJobId=7 ArrayTaskId=2 JobState=TIMEOUT Reason=TimeLimit ExitCode=0:15\n"
    )
    lines = "7_1|PENDING|QOSMaxJobsPerUserLimit\n7_2|TIMEOUT|TimeLimit\n7_3|RUNNING|None\n"
    with scripted_shell(squeue=lines, scontrol=details) as shell:
        found = made.poll(jobs)
    assert [found[job].state for job in jobs] == [JobState.PENDING, JobState.ENDED, JobState.RUNNING]
    assert found[jobs[0]].reason == "QOSMaxJobsPerUserLimit"
    assert len(shell.typed) == 2


def test_every_word_of_the_table_is_a_state_of_slurm_and_walltime_is_no_failure() -> None:
    assert all(word.isupper() for word in STATES)
    assert {state for word, (state, _) in STATES.items() if word in ("TIMEOUT", "DEADLINE")} == {JobState.ENDED}


def test_jobs_of_a_service_are_traced_by_the_names_of_their_workers() -> None:
    """A service that was killed finds its workers by them: its own name has a hyphen."""
    lines = (
        "1_3|RUNNING|N/A|cenote-service-10fa3aaee4c3-cpu-1|cenote run=service-10fa3aaee4c3 pool=cpu\n"
        "7|RUNNING|N/A|cenote-service-10fa3aaee4c3-cpu-4|a comment of the site\n"
    )
    with scripted_shell(squeue=lines):
        found = own_jobs()
    assert [(job.run, job.pool, job.worker) for job in found] == [
        ("service-10fa3aaee4c3", "cpu", "cpu-3"),
        ("service-10fa3aaee4c3", "cpu", "cpu-4"),
    ]
