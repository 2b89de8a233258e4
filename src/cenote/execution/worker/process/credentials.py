"""Keep the credentials that the driver sends, in files that only this worker's user can open."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import field
from pathlib import Path

from cenote.common.values import dataclass

FILE = "{file}"
"""Stands in the value of a variable for the path of the file that holds the credential, wherever that is."""
_FOLDER = "credentials"


@dataclass(frozen=True)
class DeliveredCredential:
    """A credential on its way to workers."""

    name: str
    """Its type, `x509`: a pool has one of each."""
    content: bytes = field(repr=False)
    variables: dict[str, str | None]
    """Environment variables by which software finds it: values with `FILE` in them, None to unset one."""


def keep_credentials(credentials: Iterable[DeliveredCredential], folder: Path | None) -> None:
    """Write each into this private folder in one piece, in the place of an earlier one, and set its variables.

    What reads the file meanwhile has the old one or the new one, whole. Raises OSError where that is impossible.
    """
    if folder is None:
        raise OSError("there is no private folder on this node for the credentials of tasks")
    private = folder / _FOLDER
    private.mkdir(mode=0o700, exist_ok=True)
    for credential in credentials:
        file = private / credential.name
        descriptor, half = tempfile.mkstemp(dir=private)  # mode 0600
        with os.fdopen(descriptor, "wb") as written:
            written.write(credential.content)
        Path(half).replace(file)
        _set_variables(credential.variables, str(file))


@contextmanager
def variables_set(variables: Mapping[str, str | None], file: str) -> Iterator[None]:
    """Set variables of this process for a credential in this file, for a while."""
    before = {name: os.environ.get(name) for name in variables}
    _set_variables(variables, file)
    try:
        yield
    finally:
        _set_variables(before, FILE)


def _set_variables(variables: Mapping[str, str | None], file: str) -> None:
    for name, value in variables.items():
        if value is None:
            os.environ.pop(name, None)
        else:
            os.environ[name] = value.replace(FILE, file)
