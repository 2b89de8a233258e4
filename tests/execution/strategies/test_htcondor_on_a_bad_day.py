"""HTCondor refuses, holds, evicts, hangs and forgets: each is told in its own words, and no job is made up."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from cenote.common.errors import CenoteError
from cenote.engine.messages import JobState, LossCause
from cenote.execution.launch import LOG, WORKER, Launch, RunLocation, Sent, SentFile
from cenote.execution.strategies.htcondor.strategy import HTCondor
from cenote.execution.strategies.interface import JobId, JobStatus, TracedJob
from cenote.language.execution import Amounts
from cenote.testing.launches import a_launch
from cenote.testing.scripted_shell import HANGS, Reply, complains, scripted_shell

JOB = JobId("7.0")
DOWN = complains("-- Failed to fetch ads from: <127.0.0.1:9618> : here")
IMPOSSIBLE = """

-- Schedd: www-data@127-0-0-1.localdomain : <127.0.0.1:33277?...
The Requirements expression for job 1.000 is

    (TARGET.Arch == "X86_64") && (TARGET.OpSys == "LINUX") &&
    (TARGET.Disk >= RequestDisk) && (TARGET.Memory >= RequestMemory) &&
    (TARGET.FileSystemDomain == MY.FileSystemDomain)

Job 1.000 defines the following attributes:

    DiskUsage = 45
    FileSystemDomain = "localdomain"
    RequestDisk = DiskUsage (kb)
    RequestMemory = 9000000 (mb)

slot1@127-0-0-1.localdomain has the following attributes:

    TARGET.Arch = "X86_64"
    TARGET.Disk = 100000000 (kb)
    TARGET.FileSystemDomain = "localdomain"
    TARGET.Memory = 512000 (mb)
    TARGET.OpSys = "LINUX"

The Requirements expression for job 1.000 reduces to these conditions:

         Slots
Step    Matched  Condition
-----  --------  ---------
[0]           1  TARGET.Arch == "X86_64"
[1]           1  TARGET.OpSys == "LINUX"
[3]           1  TARGET.Disk >= RequestDisk
[5]           0  TARGET.Memory >= RequestMemory

No successful match recorded.
Last failed match: Mon Nov 16 02:27:29 2026

Reason for last match failure: no match found

001.000:  Run analysis summary ignoring user priority.  Of 1 machines,
      1 are rejected by your job's requirements
      0 reject your job because of their own requirements
      0 match and are already running your jobs
      0 match but are serving other users
      0 are able to run your job

WARNING:  Be advised:
   No machines matched the jobs's constraints
"""
BUSY = """
Job 2.000 defines the following attributes:

    RequestCpus = 4
    RequestMemory = 140000 (mb)

The Requirements expression for job 2.000 reduces to these conditions:

         Slots
Step    Matched  Condition
-----  --------  ---------
[0]          15  TARGET.Arch == "X86_64"
[5]           0  TARGET.Memory >= RequestMemory
[7]           0  TARGET.Cpus >= RequestCpus

No successful match recorded.

002.000:  Run analysis summary ignoring user priority.  Of 1 machines,
      0 are rejected by your job's requirements
      0 reject your job because of their own requirements
      0 match and are already running your jobs
      0 match but are serving other users
      1 are able to run your job
"""
BEGUN = """
Job 1.000 defines the following attributes:

    DiskUsage = 45
    FileSystemDomain = "localdomain"
    NumJobStarts = 1
    RequestDisk = DiskUsage (kb)
    RequestMemory = 4000 (mb)

The Requirements expression for job 1.000 reduces to these conditions:

         Slots
Step    Matched  Condition
-----  --------  ---------
[0]       never  MY.NumJobStarts is undefined
[1]       never  MY.NumJobStarts == 0
[2]       never  [0]F || [1]F


001.000:  Job is running.

Last successful match: Mon Nov 16 04:10:49 2026


001.000:  Run analysis summary ignoring user priority.  Of 1 machines,
      1 are rejected by your job's requirements
      0 reject your job because of their own requirements
      0 match and are already running your jobs
      0 match but are serving other users
      0 are able to run your job

WARNING:  Be advised:
   No machines matched the jobs's constraints
"""
SWITCHED_OFF = """
Step    Matched  Condition
-----  --------  ---------
[5]           0  TARGET.Arch == "X86_64"
[7]           0  TARGET.Disk >= RequestDisk
"""


class Clock:
    """A clock that somebody else turns."""

    now = 100.0

    def __call__(self) -> float:
        return self.now


def htcondor(**settings: object) -> tuple[HTCondor, Clock]:
    made, clock = HTCondor.model_validate(settings), Clock()
    made._clock = clock
    return made, clock


LAUNCH = a_launch("/bin/python", "--name", WORKER)


def rendered(made: HTCondor, launch: Launch = LAUNCH) -> str:
    (text,) = made.render(launch, ["gpu-1"])
    return text


def ads(**facts: object) -> str:
    return json.dumps([{"ClusterId": 7, "ProcId": 0, **facts}])


def lines(text: str) -> set[str]:
    return set(text.splitlines())


def test_settings_become_lines_of_the_description() -> None:
    made, _ = htcondor(
        walltime="4h",
        job_flavour="longlunch",
        requirements='OpSysAndVer == "AlmaLinux9"',
        accounting_group="group_hep",
        classads={"ProjectName": "hep", "WantGPULab": True, "Rounds": 3},
        directives=["rank = Memory"],
        x509userproxy="/home/ada/proxy$1",
        oauth_services=["scitokens", "box"],
    )
    wanted = Amounts(cpus=1.5, memory=4 * 2**30, gpus=1, disk=10 * 1024)
    text = rendered(made, replace(LAUNCH, resources=wanted))
    assert {
        "request_cpus = 2",
        "request_memory = 4096",
        "request_disk = 10",
        "request_gpus = 1",
        '+JobFlavour = "longlunch"',
        "+MaxRuntime = 14400",
        '+ProjectName = "hep"',
        "+WantGPULab = true",
        "+Rounds = 3",
        "accounting_group = group_hep",
        "rank = Memory",
        "x509userproxy = /home/ada/proxy$(DOLLAR)1",
        "use_oauth_services = scitokens, box",
        "should_transfer_files = NO",
        "queue",
    } <= lines(text)
    assert 'requirements = (OpSysAndVer == "AlmaLinux9") && ' in text
    assert 'BEARER_TOKEN_FILE=""$(DOLLAR){_CONDOR_CREDS}""/scitokens.use' in text
    assert "periodic_remove = JobStatus == 2 && time() - JobCurrentStartDate > 14400" in text


def test_a_pool_that_names_no_memory_asks_for_two_gigabytes_for_each_cpu() -> None:
    assert "request_memory = 1908" in lines(rendered(htcondor()[0], replace(LAUNCH, resources=Amounts())))
    assert "request_memory = 7630" in lines(rendered(htcondor()[0], replace(LAUNCH, resources=Amounts(cpus=3.5))))


def test_words_are_quoted_as_htcondor_reads_them() -> None:
    launch = a_launch("/bin/sh", "-c", "it's a $dollar", 'say "x"', "", variables={"A": "b c"})
    text = rendered(htcondor()[0], launch)
    assert '''arguments = "-c 'it''s a $(DOLLAR)dollar' 'say ""x""' ''"''' in text
    assert '''environment = "'A=b c'"''' in text


def test_with_file_transfer_the_worker_logs_to_its_own_folder_and_the_log_comes_back_by_name(tmp_path: Path) -> None:
    launch = a_launch("/bin/python", "--name", WORKER, "--log", LOG, folder=tmp_path)
    launch.run.make_folders()
    made, _ = htcondor(transfer_files=True)
    with scripted_shell(condor_submit="12.0 - 12.1\n", condor_q="") as shell:
        made.submit(launch, ["gpu-1", "gpu-2"])
    assert {
        "arguments = \"--name '$(worker)' --log '$(worker)'\"",
        f"output = {tmp_path}/out/$(worker)",
        "should_transfer_files = YES",
        "when_to_transfer_output = ON_EXIT",
        f"transfer_input_files = {tmp_path}/logs/$(worker)",
        "transfer_output_files = $(worker)",
        f'transfer_output_remaps = "$(worker) = {tmp_path}/logs/$(worker)"',
    } <= lines(shell.inputs[0])
    assert {path.name for path in (tmp_path / "logs").iterdir()} == {
        "gpu-1",
        "gpu-2",
    }  # or HTCondor would hold the jobs
    assert made.seconds_to_end > 0
    assert htcondor()[0].seconds_to_end == 0


def test_large_files_are_fetched_by_machines_that_lack_them_or_sent_to_all(tmp_path: Path) -> None:
    files = (SentFile(Path("/here/unpack.sh")), SentFile(Path("/here/large.tar.zst"), on_demand=True))
    setup = ((". ", Sent("unpack.sh")), ("cenote_unpack ", Sent("large.tar.zst")))
    launch = a_launch("/bin/python", folder=tmp_path, files=files, setup=setup)
    fetched = rendered(htcondor(transfer_files=True)[0], launch)
    assert f"transfer_input_files = {tmp_path}/logs/gpu-1, /here/unpack.sh" in fetched.splitlines()
    assert "+WantIOProxy = true" in fetched.splitlines()
    assert "condor_chirp fetch" in fetched
    assert "cenote_unpack /here/large.tar.zst" in fetched
    sent = rendered(htcondor(transfer_files=True, archives="sent")[0], launch)
    assert f"transfer_input_files = {tmp_path}/logs/gpu-1, /here/unpack.sh, /here/large.tar.zst" in sent.splitlines()
    assert not [word for word in ("WantIOProxy", "condor_chirp") if word in sent]
    assert 'cenote_unpack ""$(DOLLAR){_CONDOR_SCRATCH_DIR}""/large.tar.zst' in sent
    seen = rendered(htcondor()[0], launch)
    assert "cenote_unpack /here/large.tar.zst" in seen
    assert not [word for word in ("WantIOProxy", "condor_chirp", "transfer_input") if word in seen]


def test_workers_get_the_usual_variables_and_those_that_are_named_and_no_others() -> None:
    launch = replace(
        a_launch("/bin/python", variables={"PATH": "/bin"}), passed=("ANALYSIS_*",), unset=("LD_LIBRARY_PATH", "LC_*")
    )
    (line,) = [line for line in rendered(htcondor()[0], launch).splitlines() if line.startswith("getenv = ")]
    passed = line.removeprefix("getenv = ").split(", ")
    assert {"HOME", "LANG", "ANALYSIS_*", "X509_CERT_DIR"} <= {*passed}
    assert not {"PATH", "LD_LIBRARY_PATH", "LC_*", "X509_USER_PROXY", "BEARER_TOKEN_FILE"} & {*passed}


def test_without_file_transfer_the_worker_logs_where_it_is_told_to() -> None:
    made, _ = htcondor()
    text = rendered(made, a_launch("/bin/python", "--log", LOG))
    assert {"arguments = \"--log '/run/logs/gpu-1'\"", "should_transfer_files = NO"} <= lines(text)
    assert "transfer_output" not in text


def test_a_request_that_no_machine_could_ever_meet_is_refused_with_the_condition_and_taken_back() -> None:
    made, _ = htcondor()
    with (
        scripted_shell(condor_submit="1.0 - 1.0\n", condor_q=IMPOSSIBLE, condor_status="", condor_rm="") as shell,
        pytest.raises(CenoteError) as caught,
    ):
        made.submit(LAUNCH, ["gpu-1"])
    (problem,) = caught.value.problems
    assert problem.kind.name == "job-refused"
    assert problem.message == (
        "condor_q -better-analyze: of 1 machines, 1 are rejected by the job's requirements: "
        "no machine has TARGET.Memory >= RequestMemory, with RequestMemory = 9000000 (mb)"
    )
    assert ("condor_rm", "1.0") in shell.typed


@pytest.mark.parametrize(
    "reply",
    [Reply(BUSY), Reply(BEGUN), Reply(SWITCHED_OFF), DOWN, HANGS],
    ids=["busy", "begun by then", "no machines", "down", "silent"],
)
def test_a_request_that_only_has_to_wait_is_taken_and_asked_about_once(reply: Reply) -> None:
    made, _ = htcondor()
    with scripted_shell(condor_submit="1.0 - 1.0\n", condor_q=reply) as shell:
        made.submit(LAUNCH, ["gpu-1"])
        made.submit(LAUNCH, ["gpu-2"])
    assert shell.times("condor_q") == 1


@pytest.mark.parametrize("reply", [Reply("slot1@big\n"), DOWN, HANGS], ids=["large enough", "down", "silent"])
def test_a_request_that_an_empty_machine_could_hold_only_has_to_wait(reply: Reply) -> None:
    made, _ = htcondor()
    wanted = replace(LAUNCH, resources=Amounts(cpus=4, memory=8 * 2**30, disk=10 * 2**20, gpus=1))
    with scripted_shell(condor_submit="1.0 - 1.0\n", condor_q=IMPOSSIBLE, condor_status=reply) as shell:
        assert made.submit(wanted, ["gpu-1"]) == ["1.0"]
    (question,) = [words for words in shell.typed if words[0] == "condor_status"]
    assert (
        question[2] == "TotalSlotCpus >= 4 && TotalSlotMemory >= 8192 && TotalSlotDisk >= 10240 && TotalSlotGPUs >= 1"
    )


def test_where_machines_come_later_nobody_asks_whether_there_are_any() -> None:
    made, _ = htcondor(machines_come_later=True)
    with scripted_shell(condor_submit="1.0 - 1.0\n", condor_q=IMPOSSIBLE) as shell:
        assert made.submit(LAUNCH, ["gpu-1"]) == ["1.0"]
    assert shell.times("condor_q") == 0


def test_jobs_found_again_are_held_or_over_too() -> None:
    made, _ = htcondor()
    marks = {"CenoteRun": "r1", "CenotePool": "gpu", "CenoteWorker": "gpu-3", "CenoteHome": "login:/out", "QDate": 17}
    with scripted_shell(condor_q=ads(JobStatus=5, **marks)) as shell:
        (found,) = made.trace("r1")
        assert made.trace("r2") == []
    assert found == TracedJob(JOB, "r1", "gpu", "gpu-3", "HELD", 17, RunLocation("login", Path("/out")))
    assert "CenoteRun =!= undefined" in shell.typed[0]


def test_many_workers_are_one_cluster() -> None:
    made, _ = htcondor()
    with scripted_shell(condor_submit="12.0 - 12.2\n", condor_q="") as shell:
        assert made.submit(LAUNCH, ["gpu-1", "gpu-2", "gpu-3"]) == ["12.0", "12.1", "12.2"]
    text = shell.inputs[0]
    assert {
        '+CenoteWorker = "$(worker)"',
        "arguments = \"--name '$(worker)'\"",
        "output = /run/out/$(worker)",
    } <= lines(text)
    assert text.endswith("\nqueue worker from (\ngpu-1\ngpu-2\ngpu-3\n)\n")


def test_a_refused_submission_is_told_in_htcondors_words() -> None:
    made, _ = htcondor()
    with (
        scripted_shell(condor_submit=complains("\nERROR: Failed to parse command file (line 9).\n"), condor_rm=""),
        pytest.raises(CenoteError, match=r"condor_submit: ERROR: Failed to parse command file") as caught,
    ):
        made.submit(LAUNCH, ["gpu-1"])
    assert caught.value.problems[0].kind.name == "job-refused"


@pytest.mark.parametrize(
    "reply",
    [
        complains("ERROR: Can't find address of local schedd"),
        complains("Failed to process job credential requests (1): 'CRED: locate(credd) failed!; '; BAILING OUT."),
        HANGS,
        Reply("hello\n"),
        Reply("12.0 - 12.5\n"),
    ],
    ids=["down", "no credd", "silent", "garbled", "too many"],
)
def test_a_submission_that_may_work_later_is_not_a_refusal_and_what_may_have_been_taken_is_removed(
    reply: Reply,
) -> None:
    made, _ = htcondor()
    with scripted_shell(condor_submit=reply, condor_rm="") as shell, pytest.raises(CenoteError) as caught:
        made.submit(LAUNCH, ["gpu-1"])
    assert caught.value.problems[0].kind.transient
    assert ("condor_rm", "-constraint", 'CenoteRun == "r1" && CenoteFirst == "gpu-1"') in shell.typed


@pytest.mark.parametrize("reply", [DOWN, Reply("]["), Reply('{"a": 1}'), Reply('["x"]')], ids=["down", "a", "b", "c"])
def test_no_sensible_answer_ends_no_job(reply: Reply) -> None:
    made, clock = htcondor()
    with scripted_shell(condor_q=reply, condor_history=""):
        for _ in range(12):
            clock.now += 5
            assert made.poll([JOB]) == {}


def test_a_hanging_condor_q_is_left_alone_for_a_while() -> None:
    made, clock = htcondor()
    with scripted_shell(condor_q=HANGS) as shell:
        made.poll([JOB])
        clock.now += 10
        made.poll([JOB])
        assert shell.times("condor_q") == 1


def test_a_job_that_vanished_is_asked_for_again_before_it_counts_as_lost() -> None:
    made, clock = htcondor()
    with scripted_shell(condor_q="", condor_history=""):
        assert made.poll([JOB])[JOB].state is JobState.UNKNOWN
        clock.now += 5
        assert made.poll([JOB])[JOB].state is JobState.FAILED


@pytest.mark.parametrize(
    ("facts", "state", "cause", "words"),
    [
        ({"JobStatus": 4, "ExitCode": 0, "ExitBySignal": False}, JobState.ENDED, "retired", "exited"),
        ({"JobStatus": 4, "ExitCode": 3, "ExitBySignal": False}, JobState.FAILED, "died", "exit code 3"),
        ({"JobStatus": 4, "ExitSignal": 9, "ExitBySignal": True}, JobState.FAILED, "died", "killed by SIGKILL"),
        ({"JobStatus": 3, "RemoveReason": "via condor_rm (by user me)"}, JobState.FAILED, "died", "via condor_rm"),
        (
            {"JobStatus": 3, "RemoveReason": "The job attribute PeriodicRemove expression evaluated to TRUE"},
            JobState.ENDED,
            "walltime",
            "PeriodicRemove",
        ),
    ],
    ids=["done", "failed", "killed", "removed", "walltime"],
)
def test_how_a_job_ended_is_found_in_the_history(
    facts: dict[str, object], state: JobState, cause: LossCause, words: str
) -> None:
    made, _ = htcondor()
    with scripted_shell(condor_q="", condor_history=ads(**facts)):
        found = made.poll([JOB])[JOB]
    assert (found.state, found.cause, found.needs_cancel) == (state, cause, False)
    assert words in found.reason


@pytest.mark.parametrize(
    ("code", "state", "cause"),
    [(1, JobState.FAILED, "died"), (34, JobState.FAILED, "oom"), (46, JobState.ENDED, "walltime")],
)
def test_a_held_job_is_over_and_has_to_be_removed(code: int, state: JobState, cause: LossCause) -> None:
    made, _ = htcondor()
    with scripted_shell(condor_q=ads(JobStatus=5, HoldReason="because", HoldReasonCode=code)):
        assert made.poll([JOB])[JOB] == JobStatus(state, "HELD", "HTCondor holds it: because", cause, needs_cancel=True)


def test_an_evicted_job_is_over_and_has_to_be_removed() -> None:
    made, _ = htcondor()
    with scripted_shell(condor_q=ads(JobStatus=1, NumJobStarts=1, VacateReason="PREEMPT was true")):
        found = made.poll([JOB])[JOB]
    assert (found.state, found.cause, found.needs_cancel) == (JobState.FAILED, "preempted", True)
    assert "PREEMPT was true" in found.reason


def test_a_job_that_matches_no_machine_says_which_conditions_and_is_analysed_once_a_minute() -> None:
    made, clock = htcondor()
    waiting = ads(JobStatus=1, NumJobStarts=0, LastRejMatchReason="no match found ")
    with scripted_shell(condor_q=[Reply(waiting), Reply(BUSY), Reply(waiting)]) as shell:
        found = made.poll([JOB])[JOB]
        clock.now += 5
        assert made.poll([JOB])[JOB] == found
    assert found == JobStatus(
        JobState.PENDING,
        "IDLE",
        "no match found: no machine has TARGET.Memory >= RequestMemory and TARGET.Cpus >= RequestCpus",
    )
    assert shell.times("condor_q") == 3


def test_a_foreign_number_stays_unknown() -> None:
    made, _ = htcondor()
    with scripted_shell(condor_q=ads(JobStatus=12)):
        assert made.poll([JOB])[JOB] == JobStatus(JobState.UNKNOWN, "12")
