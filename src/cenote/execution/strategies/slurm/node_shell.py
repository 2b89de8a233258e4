"""The shell of Slurm jobs on nodes that do not see the files of this machine, and of the visits that are paid to them.

A job makes a folder of its own on its node and waits there. This machine visits it: `srun` runs a shell in the job,
which reads the visit's script from its standard input, brings files, and says what the job wants, whether its worker
started, and what that printed. Slurm says who may visit.
"""

from __future__ import annotations

import base64
import shlex
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import field

from cenote.common.values import dataclass
from cenote.execution.launch import Stream
from cenote.execution.start_failures import StartFailure

FOLDER = "CENOTE_JOB"
"""The variable of a job's script with its folder."""
OUTPUT: Mapping[Stream, str] = {"out": "out", "err": "err", "logs": "log"}
"""The files of that folder with what a worker prints and logs."""
_NO_FILES, _NO_FOLDER = StartFailure.NO_FILES.value.code, StartFailure.NO_JOB_FOLDER.value.code
_LINGERS = 20
"""Seconds that a job waits for a visit after its worker ended, so that its output can be fetched."""

_ARRIVES = r"""
# This node does not see the files of the submit host. They come into a folder of this job, which is gone with it.
mkdir -m 700 "$CENOTE_JOB" && cd "$CENOTE_JOB" && mkdir files work || exit "$cenote_no_folder"
trap 'rm -rf "$CENOTE_JOB"' EXIT
trap 'exit 143' TERM INT HUP
exec >out 2>err
if command -v flock >/dev/null; then
    exec {cenote_lock}>lock.new && flock "$cenote_lock" && mv lock.new lock
    for cenote_old in "${CENOTE_JOB%/*}"/cenote-job-*; do  # of jobs that were killed
        [ -O "$cenote_old" ] && [ ! -L "$cenote_old" ] && [ -f "$cenote_old/lock" ] &&
            flock -n "$cenote_old/lock" rm -rf "$cenote_old"
    done
fi
until [ -e ready ]; do
    [ "$SECONDS" -lt "$cenote_patience" ] || exit "$cenote_no_files"
    sleep 0.2
done
export CENOTE_FETCH="/bin/sh $CENOTE_JOB/fetch $cenote_patience"
"""
_LEAVES = r"""
cenote_worker=$!
{  # bash has words of its own for a worker that was killed
    trap 'cenote_stopped=1; kill "$cenote_worker" 2>/dev/null' TERM INT HUP
    while wait "$cenote_worker"; cenote_code=$?; kill -0 "$cenote_worker"; do :; done
} 2>/dev/null
echo "$cenote_code" >ended.new && mv ended.new ended
trap 'exit "$cenote_code"' TERM INT HUP
cenote_until=$((SECONDS + cenote_lingers))
until [ -e collected ] || [ -n "$cenote_stopped" ] || [ "$SECONDS" -ge "$cenote_until" ]; do sleep 0.2; done
if [ "$cenote_code" -gt 128 ]; then  # ends as its worker did
    rm -rf "$CENOTE_JOB"
    ulimit -c 0
    trap - EXIT TERM INT HUP
    kill -s "$((cenote_code - 128))" $$
fi
exit "$cenote_code"
"""
_FETCH = r"""
# Asks for a file of the submit host, and waits until a visit has brought it: SECONDS FILE HERE
cd "${0%/*}" || exit 1
want=0
until mkdir "asked.$want" 2>/dev/null; do
    want=$((want + 1))
    [ "$want" -lt 100 ] || exit 1
done
printf '%s\n%s\n' "$2" "$3" >"asked.$want/text" && mv "asked.$want/text" "want.$want" || exit 1
until=$(($(date +%s) + $1))
until [ -e "got.$want" ]; do
    [ "$(date +%s)" -lt "$until" ] || { echo "it was not brought within $1 s" >&2; exit 1; }
    sleep 0.2
done
read -r answer <"got.$want"
[ "$answer" = whole ] && exit 0
echo "$answer" >&2
exit 1
"""
_LOOKS = r"""
echo here
for want in want.*; do
    [ ! -f "$want" ] || { echo "$want"; cat "$want"; }
done
[ ! -e started ] || echo started
bytes=20000
if [ -e ended ]; then
    echo ended
    bytes=1000000
fi
for name in out err log; do
    [ ! -e "$name" ] || echo "$name $(tail -c "$bytes" "$name" | base64 | tr -d '\n')"
done
"""


@dataclass(frozen=True)
class WantedFile:
    """A file that a job asks for."""

    number: str
    source: str
    """Its path on this machine."""
    destination: str
    """Where the node wants it."""


@dataclass(frozen=True)
class Visit:
    """What a visit found."""

    begun: bool = False
    """Whether the job's script has made its folder."""
    foreign: bool = False
    """Whether somebody else has made it."""
    wanted: tuple[WantedFile, ...] = ()
    started: bool = False
    """Whether the worker's own program was reached."""
    ended: bool = False
    output: Mapping[Stream, bytes] = field(default_factory=dict)
    """The end of what the worker printed and logged."""


def folder_of(run: str, number: str) -> str:
    """The folder of a job on its node; `number` as the node's shell writes it, or as Slurm does."""
    return f"/tmp/cenote-job-{run}-{number}"  # made by the job alone, and refused where it is there


def job_lines(run: str, worker: Sequence[str], *, patience: float) -> list[str]:
    """A job's script after its directives: `worker` are the lines that set up and become the worker."""
    *before, last = worker
    return [
        f"{FOLDER}={shlex.quote(folder_of(run, ''))}$SLURM_JOB_ID",
        f"cenote_patience={round(patience)} cenote_lingers={_LINGERS}",
        f"cenote_no_files={_NO_FILES} cenote_no_folder={_NO_FOLDER}",
        *_lines(_ARRIVES),
        "(",
        "cd work",
        *before,
        f': >"${FOLDER}/started"',
        last,
        ") &",
        *_lines(_LEAVES),
    ]


def bringing_script(run: str, number: str, files: Mapping[str, bytes]) -> str:
    """The script of a visit that brings the worker's files, and what asks for more."""
    lines = ["if [ ! -e ready ]; then"]
    for path, content in {"fetch": _FETCH.encode(), **{f"files/{name}": of for name, of in files.items()}}.items():
        lines += [f"base64 -d >new <<'.' && mv new {shlex.quote(path)} || exit 1"]
        lines += [base64.encodebytes(content).decode().strip(), "."]
    return _visit(run, number, [*lines, ": >ready", "fi"])


def answering_script(run: str, number: str, answers: Iterable[tuple[WantedFile, str]]) -> str:
    """The script of a visit that says what became of what the job wanted: nothing for what it got."""
    lines = []
    for wanted, problem in answers:
        said = shlex.quote(problem or "whole")
        lines += [f"rm -f want.{wanted.number}; echo {said} >new && mv new got.{wanted.number}"]
    return _visit(run, number, lines)


def leaving_script(run: str, number: str) -> str:
    """The script of the last visit, when all that the worker printed is here: the job may end."""
    return _visit(run, number, [": >collected; exit 0"])


def _visit(run: str, number: str, lines: Sequence[str]) -> str:
    enters = [
        "umask 077",
        f"cd {shlex.quote(folder_of(run, number))} 2>/dev/null || {{ echo absent; exit 0; }}",
        "[ -O . ] || { echo foreign; exit 0; }",
    ]
    return "\n".join([*enters, *lines, *_lines(_LOOKS), ""])


def _lines(text: str) -> list[str]:
    return text.strip().splitlines()


def read_visit(text: str) -> Visit:
    """What the shell of a visit printed."""
    lines = iter(text.splitlines())
    begun = foreign = started = ended = False
    wanted: list[WantedFile] = []
    output: dict[Stream, bytes] = {}
    streams = {name: stream for stream, name in OUTPUT.items()}
    for line in lines:
        word, _, rest = line.partition(" ")
        begun |= word == "here"
        foreign |= word == "foreign"
        started |= word == "started"
        ended |= word == "ended"
        if word.startswith("want."):
            wanted.append(WantedFile(word.removeprefix("want."), next(lines, ""), next(lines, "")))
        elif word in streams:
            output[streams[word]] = base64.b64decode(rest)
    return Visit(begun, foreign, tuple(wanted), started, ended, output)
