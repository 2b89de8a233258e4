"""Have packed environments unpacked on the node before a worker starts there."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from cenote.launch import Launch, NodeVariable, Part, Sent, SentFile, Word, shell_word
from cenote.packing.archive import PREFIX, Archive
from cenote.start_failures import StartFailure

UNPACK = Path(__file__).with_name("unpack.sh")
"""What unpacks, in the language of every node."""
SCRATCH = "CENOTE_SCRATCH"
"""Variable with the node's folder for environments, for `UNPACK`; where it is empty, it chooses one."""
USUAL_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
OF_THIS_MACHINE = (
    *("LD_LIBRARY_PATH", "LD_PRELOAD", "VIRTUAL_ENV", "CONDA_*", "PIXI_*", SCRATCH, PREFIX),
    # not all that begin so: HTCondor says by PYTHON_CPU_COUNT how much a job may use
    *("PYTHONPATH", "PYTHONHOME", "PYTHONUSERBASE", "PYTHONEXECUTABLE", "PYTHONPLATLIBDIR", "PYTHONPYCACHEPREFIX"),
    # by which `module load` would take for loaded what is not in the usual PATH
    *("LOADEDMODULES", "_LMFILES_", "_ModuleTable*", "__LMOD_REF_COUNT_*", "__MODULES_*"),
)
"""Variables about software that is elsewhere than in the environment."""
_VARIABLE = re.compile(r"\$(?:(\w+)|\{(\w+)\})|\$")


def unpacked_on_node(
    launch: Launch, archives: Sequence[Archive], *, scratch: str | None, variables: Mapping[str, str]
) -> Launch:
    """A launch whose worker runs in these archives, unpacked one after the other: the first has Python.

    `scratch` is a folder of the node with its `$VARIABLES`; None for one that the node has. Nothing of the software of
    this machine comes along: `PATH` is the node's usual one, with the archives before it.
    """
    launch = alone_on_node(launch, variables)
    launch = replace(launch, interpreter=((NodeVariable(PREFIX), "/bin/python"),))
    if not archives:
        return launch
    return replace(
        launch,
        setup=(*launch.setup, *_lines(archives, scratch)),
        files=(*launch.files, SentFile(UNPACK), *(SentFile(archive.file, on_demand=True) for archive in archives)),
    )


def alone_on_node(launch: Launch, variables: Mapping[str, str]) -> Launch:
    """Without anything of the software of this machine, and with these variables."""
    own = {"PATH": USUAL_PATH, "PYTHONNOUSERSITE": "1", **variables}
    return replace(
        launch,
        variables={**{name: (value,) for name, value in own.items()}, **launch.variables},
        unset=tuple(dict.fromkeys((*launch.unset, *OF_THIS_MACHINE))),
    )


def script_lines(script: Path, does: str) -> tuple[Word, Word]:
    """Lines of shell that read a script which is sent along, or end with the reason why there is none."""
    sent, code = Sent(script.name), StartFailure.NO_ARCHIVE.value.code
    missing = f"the node does not see the file that {does}"
    return ("[ -r ", sent, f" ] || {{ echo 'cenote: {missing}' >&2; exit {code}; }}"), (". ", sent)


def _lines(archives: Sequence[Archive], scratch: str | None) -> tuple[Word, ...]:
    lines: list[Word] = [*script_lines(UNPACK, "unpacks environments")]
    if scratch is not None:
        folder, needed = _filled_on_node(scratch)
        names = "".join(f" {name}" for name in needed)
        lines.append((f"cenote_variables{names}; {SCRATCH}={shell_word(folder)}",))
    return (*lines, *(_unpack_line(archive) for archive in archives))


def _unpack_line(archive: Archive) -> Word:
    facts = (archive.digest, archive.size, archive.unpacked, archive.compression, archive.platform)
    longest = len(archive.placeholder.encode())
    return ("cenote_unpack ", Sent(archive.file.name), "".join(f" {fact}" for fact in (*facts, longest)))


def _filled_on_node(folder: str) -> tuple[Word, list[str]]:
    """A folder with the variables of the node, and their names."""
    if folder == "~" or folder.startswith("~/"):
        folder = f"${{HOME}}{folder[1:]}"
    parts: list[Part] = []
    names = []
    at = 0
    for found in _VARIABLE.finditer(folder):
        name = found[1] or found[2]
        parts += [folder[at : found.start()], NodeVariable(name) if name else "$"]
        names += [name] if name else []
        at = found.end()
    return (*parts, folder[at:]), names
