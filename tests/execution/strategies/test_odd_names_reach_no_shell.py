"""Whatever folders, files and values are called: jobs get them as they are, or are refused, and no shell reads them."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cenote.common.errors import JOB_REFUSED, CenoteError
from cenote.common.text import worker_name
from cenote.execution.launch import LOG, WORKER, Launch, RunLocation, SentFile
from cenote.execution.strategies.htcondor.strategy import HTCondor
from cenote.execution.strategies.slurm.strategy import Slurm
from cenote.testing.launches import a_launch

PIECES = [
    *("a", " ", "  ", "'", '"', "\\", "$", "$(id)", "${HOME}", "`id`", "$(DOLLAR)", "$$(Memory)", "%", "%j", "%%", ";"),
    *(
        "#",
        "\n",
        "\r",
        "\t",
        "\x0b",
        "\u2028",
        "&",
        "|",
        "<",
        ">",
        "*",
        "?",
        "[",
        "]",
        "{",
        "}",
        "(",
        ")",
        "!",
        "~",
        "=",
    ),
    *(
        ",",
        "-",
        "--",
        "é",
        "e\u0301",
        "\U0001f40d",
        "\nqueue\n",
        "\n#SBATCH --wrap=id\n",
        "\ntouch /tmp/owned\n",
        "EOF",
    ),
]
ODD = st.lists(st.sampled_from(PIECES), min_size=1, max_size=6).map("".join)
PRINT = 'printf "%s\\0" "$@" "$GREETING"'


def odd_launch(name: str, *, setup: bool = False, files: tuple[SentFile, ...] = ()) -> Launch:
    folder = Path("/run", name.replace("/", ""))
    return a_launch(
        *("/bin/sh", "-c", PRINT, "sh", WORKER, LOG, name),
        pool=re.sub(r"[\x00-\x1f]", "", name) or "p",  # the language refuses the others
        folder=folder,
        location=RunLocation("here", folder, "1"),
        variables={"GREETING": name},
        setup=(("true # ", "it's"),) if setup else (),
        files=files,
    )


def expected(launch: Launch, name: str, log: str = "") -> list[str]:
    worker = worker_name(launch.pool, 1)
    return [worker, log or f"{launch.run.folder('logs')}/{worker}", name, name]


def printed(command: list[str], text: str | None = None, **variables: str) -> list[str]:
    """What the worker got: with a home and a path of its own, so that nothing is found by accident."""
    environment = {"PATH": os.environ["PATH"], "HOME": "/home/ada", **variables}
    given_in = None if text is None else text.encode()
    done = subprocess.run(command, input=given_in, capture_output=True, env=environment, check=True, timeout=60)
    assert done.stderr == b""
    return done.stdout.decode().split("\0")[:-1]


def rendered(strategy: Slurm | HTCondor, launch: Launch) -> str | None:
    """The job of one worker; None where it is refused."""
    try:
        (text,) = strategy.render(launch, [worker_name(launch.pool, 1)])
    except CenoteError as refused:
        kind = refused.problems[0].kind
    else:
        return text
    assert kind is JOB_REFUSED
    return None


@settings(max_examples=60, deadline=None)
@given(name=ODD, setup=st.booleans())
def test_a_slurm_job_gets_odd_names_as_they_are(name: str, setup: bool) -> None:
    launch = odd_launch(name, setup=setup)
    script = rendered(Slurm(), launch)
    if script is None:
        assert re.search(r"[\x00-\x1f\\\u2028]", name)
        return
    usual = Slurm().render(odd_launch("usual"), ["usual-1"])[0]
    options = [line.split("=")[0] for line in script.split("\n") if line.startswith("#SBATCH")]
    assert options == [line.split("=")[0] for line in usual.split("\n") if line.startswith("#SBATCH")]
    assert printed(["/bin/bash", "-s"], script) == expected(launch, name)


def as_htcondor_reads(text: str) -> dict[str, str]:
    """A submit description: a line is a key and its value, in which `$(DOLLAR)` is a dollar."""
    found = {}
    for line in text.removesuffix("\n").split("\n"):
        key, equals, value = line.partition(" = ")
        assert equals or line == "queue", line
        assert not re.search(r"\$(?!\(DOLLAR\))", value), line
        found[key] = value.replace("$(DOLLAR)", "$")
    return found


def split(arguments: str) -> list[str]:
    """By HTCondor's newer rules: double quotes around all, and doubled within; single quotes around words, likewise."""
    assert arguments[0] == arguments[-1] == '"'
    text = arguments[1:-1]
    assert '"' not in text.replace('""', "")
    rest, inside = text.replace('""', '"'), False
    words: list[str] = []
    word: str | None = None
    while rest:
        if inside and rest.startswith("''"):
            word, rest = f"{word}'", rest[1:]
        elif rest[0] == "'":
            inside, word = not inside, word or ""
        elif rest[0] in " \t\n\r" and not inside:
            words += [word] if word is not None else []
            word = None
        else:
            word = (word or "") + rest[0]
        rest = rest[1:]
    return words + ([word] if word is not None else [])


@settings(max_examples=60, deadline=None)
@given(name=ODD, setup=st.booleans())
def test_an_htcondor_job_gets_odd_names_as_they_are(name: str, setup: bool) -> None:
    launch = odd_launch(name, setup=setup)
    text = rendered(HTCondor(), launch)
    if text is None:
        assert re.search(r"[\x00-\x1f\u2028]|\$\$\(|\$\(DOLLAR\)", name)
        return
    lines = as_htcondor_reads(text)
    usual = as_htcondor_reads(HTCondor().render(odd_launch("usual", setup=setup), ["usual-1"])[0])
    assert lines.keys() == usual.keys()
    assert lines["output"] == f"{launch.run.folder('out')}/{worker_name(launch.pool, 1)}"
    variables = dict(one.split("=", 1) for one in split(lines.get("environment", '""')))
    assert printed([lines["executable"], *split(lines["arguments"])], **variables) == expected(launch, name)


@pytest.mark.parametrize("name", ["a,b", 'a"b', "a\nb", "$$(Memory)", "$(dollar)"])
def test_what_htcondor_cannot_transfer_is_refused(name: str) -> None:
    for launch in (odd_launch(name), odd_launch("usual", files=(SentFile(Path("/there", name)),))):
        with pytest.raises(CenoteError) as refused:
            HTCondor(transfer_files=True).render(launch, ["usual-1"])
        assert refused.value.problems[0].kind is JOB_REFUSED


@pytest.mark.parametrize(
    "strategy", [Slurm(directives=("--x\ntouch y",)), Slurm(account="a\nb"), HTCondor(requirements="a\nb")]
)
def test_settings_add_no_lines_of_their_own(strategy: Slurm | HTCondor) -> None:
    with pytest.raises(CenoteError, match="line break"):
        strategy.render(odd_launch("usual"), ["usual-1"])


@settings(max_examples=60, deadline=None)
@given(name=ODD, setup=st.booleans())
def test_a_local_worker_gets_odd_names_as_they_are(name: str, setup: bool) -> None:
    launch = odd_launch(name, setup=setup)
    command, variables = launch.here(worker_name(launch.pool, 1))
    assert printed([*command], **variables) == expected(launch, name)


@pytest.mark.parametrize("name", ["A B", "A;id", "", "1A", "A=B", "A\n", "$(id)"])
def test_what_cannot_name_a_variable_reaches_no_script(name: str) -> None:
    with pytest.raises(ValueError, match="environment variable"):
        a_launch("true", variables={name: "x"})
