"""A container: an image of apptainer or singularity, or an environment in a squashfs over an image."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from hashlib import file_digest
from pathlib import Path
from typing import Any, ClassVar, Self

from pydantic import PrivateAttr, model_validator

from cenote.common import errors, storage
from cenote.common.errors import Problem
from cenote.common.units import format_bytes
from cenote.execution.environments.support.packed import USE, PresentEnvironment
from cenote.execution.launch import Launch, NodeVariable, Sent, Word, words
from cenote.execution.packing.archive import PackingStep, Progress
from cenote.execution.packing.software import Software

_RUNTIMES = ("apptainer", "singularity")
_RUNTIME, _BINDS = NodeVariable("CENOTE_RUNTIME"), NodeVariable("CENOTE_BINDS")
_PREFIX = "/opt/cenote-environment"
_INSIDE = '. "$0" && cenote_use_prefix "$1" && shift && exec "$CENOTE_PREFIX/bin/python" "$@"'
"""In the container: activates the prefix there."""
_SEPARATORS = (",", ":")
"""By which apptainer tells paths from each other: no path may have one."""


class Container(PresentEnvironment):
    """An image of apptainer or singularity, which nodes see or can fetch: workers run in it.

    Inside they see the run's folder, the workflow's, temporary folders, the home folder and what `binds` names. Cenote
    travels beside the image.
    """

    example: ClassVar[str] = """
    execution:
      environment: {type: container, image: /cvmfs/unpacked.example.org/analysis/2026a, binds: [/data]}
    """

    image: str
    """A file (`.sif`) or an unpacked folder that nodes see, or a name that they can fetch: `docker://…`."""
    squashfs: str | None = None
    """An environment as a squashfs, which nodes see: it is shown in the container at `prefix`."""
    prefix: str | None = None
    """The folder in the container with the environment, made for that path. Without it Python is the image's `python3`;
    of a `squashfs`, it is `/opt/cenote-environment`."""
    binds: tuple[str, ...] = ()
    """Further folders of the node that are shown inside: `/data`, `/scratch/in:/data:ro`."""
    gpus: bool | None = None
    """Whether the GPUs of the node are usable inside (`--nv`); without it, in pools that ask for GPUs."""
    options: tuple[str, ...] = ()
    """Further options of `apptainer exec`."""
    runtime: str | None = None
    """The program, where it is neither `apptainer` nor `singularity` in the node's usual PATH."""

    _digests: dict[str, str] = PrivateAttr(default_factory=dict)

    @model_validator(mode="after")
    def _paths_inside(self) -> Self:
        if self.prefix is not None and not self.prefix.startswith("/"):
            raise ValueError("`prefix` is a path in the container, which begins with /")
        return self

    def prepare(self, progress: Progress) -> None:
        """Read the files once, for the record, and pack the code that travels beside them."""
        super().prepare(progress)
        for key, file in self._files():
            if storage.is_file(file):
                progress(PackingStep(f"reading {file.name} ({format_bytes(file.stat().st_size)})"))
                with file.open("rb") as opened:
                    self._digests[key] = file_digest(opened, "sha256").hexdigest()

    def complete(self, launch: Launch) -> Launch:
        """With its Python, run by apptainer."""
        sent = [Sent(USE.name), *(Sent(file.name) for file in launch.files if not file.on_demand)]
        launch = self._used_on_node(launch, list(self._finding()))
        command = tuple(self._command(launch))
        shown = [str(launch.run.output), str(self.absolute_path("."))]
        after: list[Word] = [
            (f'cenote_show "${{TMPDIR:-/tmp}}" /tmp /var/tmp {shlex.join(shown)}',),
            ('cenote_show_path "${PYTHONPATH:-}"',),
            ("cenote_show_folder_of", *(part for file in sent for part in (" ", file))),
            (f"CENOTE_BINDS=$CENOTE_BINDS{shlex.quote(''.join(f',{one}' for one in self._binds()))}",),
            ("cenote_try", *_as_line(command)),
        ]
        return replace(launch, setup=(*launch.setup, *after), interpreter=command)

    def _finding(self) -> Iterator[Word]:
        """Lines that find the program and the files."""
        yield (f"cenote_find_runtime {shlex.join([self.runtime] if self.runtime else _RUNTIMES)}",)
        needed = [*(str(file) for _, file in self._files()), *(one.partition(":")[0] for one in self.binds)]
        yield (f"cenote_needs {shlex.join(needed)}",)

    def _command(self, launch: Launch) -> Iterator[Word]:
        nv = self.gpus if self.gpus is not None else bool(launch.resources.gpus)
        options = ["--nv"] if nv else []
        yield from words(_RUNTIME, "exec", *options, "--bind", _BINDS, *self.options, self._image())
        if (prefix := self._prefix()) is None:
            yield ("python3",)
        else:
            yield from words("/bin/sh", "-c", _INSIDE, Sent(USE.name), prefix)

    def describe(self) -> Mapping[str, Any]:
        """Its image, with the digest of the file."""
        facts: dict[str, Any] = {"image": self._image()}  # Any: for JSON
        if "image" in self._digests:
            facts["digest"] = self._digests["image"]
        if self.squashfs is not None:
            facts["squashfs"] = str(self.absolute_path(self.squashfs))
            facts |= {"squashfs_digest": self._digests["squashfs"]} if "squashfs" in self._digests else {}
        return {**facts, **self._described()}

    def check(self) -> Iterable[Problem]:
        """Whether paths can be told to apptainer; the files may be seen by nodes alone."""
        yield from super().check()
        paths = [*(str(file) for _, file in self._files()), self._prefix() or ""]
        for path in [path for path in paths if any(separator in path for separator in _SEPARATORS)]:
            hint = "apptainer separates paths by these: choose another name"
            yield Problem(errors.BAD_ENVIRONMENT, f"{path} has a comma or a colon in its name", hint=hint)

    def _files(self) -> Iterator[tuple[str, Path]]:
        """Those that nodes must see."""
        if "://" not in self.image:
            yield "image", self.absolute_path(self.image)
        if self.squashfs is not None:
            yield "squashfs", self.absolute_path(self.squashfs)

    def _image(self) -> str:
        return self.image if "://" in self.image else str(self.absolute_path(self.image))

    def _prefix(self) -> str | None:
        return self.prefix or (_PREFIX if self.squashfs is not None else None)

    def _binds(self) -> list[str]:
        over = [] if self.squashfs is None else [f"{self.absolute_path(self.squashfs)}:{self._prefix()}:image-src=/"]
        return [*over, *self.binds]

    def _software(self) -> Software | None:
        return None


def _as_line(command: Sequence[Word]) -> Iterator[str | Sent | NodeVariable]:
    """Words of a command as parts of a line of shell."""
    for word in command:
        yield " "
        for part in word:
            assert isinstance(part, str | Sent | NodeVariable), part
            yield shlex.quote(part) if isinstance(part, str) else part
