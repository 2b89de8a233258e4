"""Take names of files out of listings that other programs make: filesets of coffea, replicas and tables of rucio."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

from cenote import errors
from cenote.errors import Problem
from cenote.names import did_you_mean, listed
from cenote.values import dataclass

CATALOGUES = frozenset({".json", ".yaml", ".yml"})
"""Endings of files that hold names of files in a structure."""
_ADDRESS = re.compile(r"[a-z]+://\S+")
_ROW = re.compile(r"^\s*\|.*\|\s*$")
_ADLER32 = re.compile(r"[0-9a-fA-F]{8}")
_RULE = re.compile(r"^\s*\+[-=+]+\+\s*$")


@dataclass(frozen=True)
class ListedFile:
    """A file as a listing names it."""

    name: str
    adler32: str = ""
    """Its checksum, in eight digits; empty where the listing has none."""


def names_in_text(line: str) -> list[ListedFile]:
    """The files in a line: all of it, or the first address of a row of a table such as rucio prints."""
    if _RULE.match(line):
        return []
    if _ROW.match(line):
        before, *_ = re.split(r"\|[^|]*://", line)
        given = before.rpartition("|")[2].strip()  # in the column before that of addresses
        return [ListedFile(name, _adler32({"adler32": given})) for name in _ADDRESS.findall(line)[:1]]
    return [ListedFile(line)]


def names_in_catalogue(path: Path, dataset: str) -> list[ListedFile] | Problem:
    """The files of a dataset in a JSON or YAML file.

    It is a list of names; a mapping of datasets to lists, or to mappings with `files` (a list, or file → tree, as in
    coffea's filesets); or rucio's list of replicas, of each of which the first address is taken.
    """
    try:
        text = path.read_text(encoding="utf-8")
        found = json.loads(text) if path.suffix == ".json" else yaml.safe_load(text)
    except (ValueError, yaml.YAMLError) as problem:
        return Problem(errors.NO_DATA, f"{path} cannot be read as {path.suffix[1:].upper()}: {_first_line(problem)}")
    return _names(found, path, dataset)


def _first_line(problem: Exception) -> str:
    return str(problem).strip().partition("\n")[0]


def _names(found: Any, path: Path, dataset: str) -> list[ListedFile] | Problem:  # Any: whatever the file holds
    if isinstance(found, list):
        names = [_name(entry) for entry in found]
        kept = [ListedFile(name, _adler32(entry)) for name, entry in zip(names, found, strict=True) if name is not None]
        if len(kept) == len(names):
            return kept
        return Problem(errors.NO_DATA, f"{path} lists something else than files: {str(found[names.index(None)])[:60]}")
    if not isinstance(found, Mapping):
        return Problem(errors.NO_DATA, f"{path} names no files: it holds neither a list nor a mapping")
    if "files" in found:
        files = found["files"]
        return [ListedFile(str(file)) for file in files] if isinstance(files, Mapping) else _names(files, path, dataset)
    if dataset in found:
        return _names(found[dataset], path, dataset)
    hint = did_you_mean(dataset, list(map(str, found)))
    details = (f"datasets there: {listed(map(str, found))}",)
    return Problem(errors.NO_DATA, f"{path} has no dataset '{dataset}'", details=details, hint=hint)


def _name(entry: Any) -> str | None:  # Any: whatever the file holds
    """A name, or the address of a replica: the one that rucio would take first."""
    if isinstance(entry, str):
        return entry
    if not isinstance(entry, Mapping):
        return None
    pfns = entry.get("pfns")
    if isinstance(pfns, Mapping) and pfns:
        return str(min(pfns, key=lambda one: _priority(pfns[one])))
    rses = entry.get("rses")
    if isinstance(rses, Mapping):
        addresses = [one for replicas in rses.values() if isinstance(replicas, Sequence) for one in replicas]
        return str(addresses[0]) if addresses else None
    return next((entry[key] for key in ("file", "path", "url", "lfn") if isinstance(entry.get(key), str)), None)


def _adler32(entry: Any) -> str:  # Any: whatever the file holds
    given = entry.get("adler32") if isinstance(entry, Mapping) else None
    return given.lower() if isinstance(given, str) and _ADLER32.fullmatch(given) else ""


def _priority(facts: Any) -> int:  # Any: whatever rucio says of a replica
    given = facts.get("priority") if isinstance(facts, Mapping) else None
    return given if isinstance(given, int) else 1_000_000
