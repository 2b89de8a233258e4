"""List why a node could not start a worker: the exit codes by which it says so, and what people read."""

from __future__ import annotations

from enum import Enum
from typing import NamedTuple


class Explained(NamedTuple):
    """An exit code and its meaning."""

    code: int
    words: str
    """What happened on the node."""
    hint: str


class StartFailure(Enum):
    """Everything that can go wrong on a node before its worker joins."""

    MISSING_TOOL = Explained(
        80,
        "the node lacks a program that unpacks the environment",
        "its errors name the program; `compression: gzip` does without zstd",
    )
    NO_ARCHIVE = Explained(
        81,
        "the node could not get the archive of the environment",
        "name a folder that nodes see by the environment's `folder`, or have archives sent: `transfer_files`, on "
        "HTCondor also `archives: sent`",
    )
    CORRUPT_ARCHIVE = Explained(
        82,
        "the archive of the environment reached the node damaged: its digest is wrong",
        "`cenote env verify` checks the archive on this machine",
    )
    NO_SPACE = Explained(
        83,
        "the node's folder for environments has too little free space",
        "name another folder by the environment's `scratch`",
    )
    NO_FOLDER = Explained(
        84,
        "the node's folder for environments cannot be written",
        "name another folder by the environment's `scratch`",
    )
    UNSAFE_FOLDER = Explained(
        85,
        "the node's folder for environments belongs to another user, or others may write to it",
        "name another folder by the environment's `scratch`",
    )
    NOT_UNPACKED = Explained(
        86,
        "the environment could not be unpacked on the node",
        "the worker's errors say why",
    )
    WRONG_PLATFORM = Explained(
        87,
        "the environment is for another platform than the node",
        "pack it for the platform of the nodes, or choose other nodes",
    )
    LONG_PATH = Explained(
        88,
        "the node's folder for environments has too long a path",
        "name a folder with a shorter path by the environment's `scratch`",
    )
    BROKEN_PYTHON = Explained(
        89,
        "the Python of the environment does not start on the node",
        "the worker's errors say why",
    )
    LOCKED = Explained(
        90,
        "another worker on the node did not finish to unpack the environment in time",
        "look at the node: its disk may be very slow",
    )
    NO_CONTAINER_RUNTIME = Explained(
        91,
        "the node has neither apptainer nor singularity",
        "choose nodes that have one of them, or a packed environment",
    )
    NO_FILES = Explained(
        92,
        "the worker's files did not reach the node in time",
        "a driver that was stopped sends none; else a larger `join_timeout` helps where Slurm is slow",
    )
    NO_JOB_FOLDER = Explained(
        93,
        "the job could not make a folder of its own in /tmp of the node",
        "look at the node: its /tmp may be full",
    )
    OTHER_SOFTWARE = Explained(
        95,
        "the software of the worker does not fit the driver's",
        "`cenote probe` compares them; give workers the versions that run this command",
    )
    NOT_SEEN = Explained(
        96,
        "the node does not see the environment",
        "its errors name what is missing: choose nodes that have it, or a packed environment",
    )

    NO_DRIVER = Explained(
        97,
        "the node does not reach the driver",
        "its errors name the address that did not answer; `cenote probe` tries the way there",
    )

    def __str__(self) -> str:
        code, words, hint = self.value
        return f"{words} (exit code {code}): {hint}"

    @classmethod
    def of(cls, code: int) -> StartFailure | None:
        """The one that an exit code says."""
        return next((failure for failure in cls if failure.value.code == code), None)
