"""Pack a prefix: placeholder for its path, bytecode, activation, and what a node needs to put it in place."""

from __future__ import annotations

import json
import mmap
import os
import re
import shlex
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

import msgspec

from cenote.common import errors
from cenote.common.machine import this_machine
from cenote.common.shell import run_command
from cenote.common.text import first_of, plural
from cenote.execution.packing.archive import OWN_FOLDER, Compression, PackingStep, Progress
from cenote.execution.packing.prefixes import relocate
from cenote.execution.packing.prefixes.library_paths import PLACEHOLDER, FilledPrefix, NoRoomError, PrefixPaths
from cenote.execution.packing.software import conda_records, json_object
from cenote.execution.packing.write import Found, Member, Written, left_out, walk, write_archive

# Compile the Python files of a prefix before they are packed: workers then start several times faster.


_PROGRAM = Path(__file__).with_name("compile_sources.py")
_AT_ONCE = 400
"""Files that one process compiles: a second or so."""
_MOST_SECONDS, _MOST_SECONDS_TO_START = 600.0, 60.0
_SURROUNDINGS = ("PATH=/usr/bin:/bin", "PYTHONHASHSEED=0", "PYTHONDONTWRITEBYTECODE=1", "LC_ALL=C.UTF-8")
_ALONE = ("-s", "-S", "-P", "-W", "ignore")


def _command(python: Path) -> list[str]:
    return ["env", "-i", *_SURROUNDINGS, str(python), *_ALONE]


def python_runs_here(python: Path) -> bool:
    """Whether this Python starts on this machine: one for another platform does not."""
    try:
        done = run_command([*_command(python), "-c", ""], seconds=_MOST_SECONDS_TO_START)
    except (OSError, TimeoutError):
        return False
    return done.returncode == 0


def compile_sources(
    python: Path, folder: Path, names: Sequence[str], target: Path, paths: Sequence[str], progress: Progress
) -> None:
    """Compile the files of these names in the folder, with this Python; bytecode is written below the target.

    What holds one of the paths is left out. Nothing of the process that does it, or of its surroundings, is in there.
    """
    parts = [names[start : start + _AT_ONCE] for start in range(0, len(names), _AT_ONCE)]
    sizes = [sum((folder / name).stat().st_size for name in part) for part in parts]
    what, done = f"compiling {plural(len(names), 'module')}", 0

    def compile_part(part: Sequence[str]) -> None:
        program = [str(_PROGRAM), str(folder), str(target), *paths]
        command, given = [*_command(python), *program], "\0".join(part)
        ended = run_command(command, seconds=_MOST_SECONDS, given=given, hears_ctrl_c=False)
        if ended.returncode != 0:
            last = (ended.stderr.strip() or f"it ended with code {ended.returncode}").splitlines()[-1]
            raise errors.error(errors.BAD_ENVIRONMENT, f"{python} cannot compile the modules of its prefix: {last}")

    if names:
        progress(PackingStep(what, done, sum(sizes)))
    with ThreadPoolExecutor(this_machine().cpus) as pool:
        work = {pool.submit(compile_part, part): size for part, size in zip(parts, sizes, strict=True)}
        try:
            for part in as_completed(work):
                part.result()
                done += work[part]
                progress(PackingStep(what, done, sum(sizes)))
        finally:
            pool.shutdown(cancel_futures=True)


# Write what a shell on the node runs to use an environment: `activate.sh` of an archive.


_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_OF_ENVIRONMENTS = """\
export CENOTE_PREFIX="$CENOTE_HERE"
export PATH="$CENOTE_HERE/bin:$PATH"
"""
_OF_CONDA = """\
export CONDA_PREFIX="$CENOTE_HERE"
"""
_SCRIPTS = """\
# Packages write these for bash: what another shell cannot read would end it. What they print is not output of a worker.
if command -v bash >/dev/null 2>&1; then
    cenote_exports=$(CENOTE_HERE=$CENOTE_HERE bash -c '
        for cenote_one in "$CENOTE_HERE"/etc/conda/activate.d/*.sh; do
            [ ! -r "$cenote_one" ] || . "$cenote_one"
        done >&2
        cenote_q=$(printf "\\47")
        for cenote_one in $(compgen -e); do
            cenote_text=${!cenote_one}
            cenote_text=${cenote_text//"$cenote_q"/"$cenote_q\\\\$cenote_q$cenote_q"}
            printf "export %s=%s\\n" "$cenote_one" "$cenote_q$cenote_text$cenote_q"
        done
    ') || echo 'cenote: an activation script of the environment failed' >&2
    eval "$cenote_exports"
    unset cenote_exports
else
    for cenote_script in "$CENOTE_HERE"/etc/conda/activate.d/*.sh; do
        if (. "$cenote_script") >/dev/null 2>&1; then
            . "$cenote_script" >&2
        elif [ -r "$cenote_script" ]; then
            echo "cenote: ${cenote_script##*/} was left out of the activation: it needs bash" >&2
        fi
    done
    unset cenote_script
fi
"""
CODE_ACTIVATION = """\
export PYTHONPATH="$CENOTE_HERE${PYTHONPATH:+:$PYTHONPATH}"
"""


def activation_of(prefix: Path, paths: Sequence[str], own: Sequence[str]) -> str:
    """Of an environment: what conda would do for this prefix, then these lines."""
    is_conda = (prefix / "conda-meta").is_dir()
    variables = "".join(f"{line}\n" for line in _assignments(prefix, paths))
    scripts = _SCRIPTS if any((prefix / "etc" / "conda" / "activate.d").glob("*.sh")) else ""
    conda = _OF_CONDA + variables + scripts if is_conda else ""
    return _OF_ENVIRONMENTS + conda + "".join(f"{line}\n" for line in own)


def _assignments(prefix: Path, paths: Sequence[str]) -> Iterator[str]:
    """Of variables that packages, then the user (`conda env config vars set`), gave the prefix."""
    files = [*sorted((prefix / "etc" / "conda" / "env_vars.d").glob("*.json")), prefix / "conda-meta" / "state"]
    variables: dict[str, Any] = {}  # Any: JSON
    for file in files:
        if file.is_file():
            written = json_object(file)
            variables |= written.get("env_vars", {}) if file.name == "state" else written
    for name, value in variables.items():
        if _VARIABLE.fullmatch(name) and value != "***unset***":  # conda's own word for it
            yield f"export {name}={_quoted(str(value), paths)}"


def _quoted(value: str, paths: Sequence[str]) -> str:
    """As one word, with the folder on the node for that of the prefix."""
    for path in paths:
        if path and path in value:
            return '"$CENOTE_HERE"'.join(shlex.quote(part) if part else "" for part in value.split(path))
    return shlex.quote(value)


_NOT_PACKED = frozenset({"pkgs", "envs", "conda-bld", OWN_FOLDER})
"""At the top of a prefix: of conda's base prefix the caches and the other environments."""
_OF_THIS_MACHINE = ("conda-meta/history", "conda-meta/state", "conda-meta/pixi*", "conda-meta/.*")
_KEPT_OF_RECORDS = ("name", "version", "build", "build_number", "subdir", "noarch", "depends")
"""What conda's records say of a package. The rest is about this machine: paths, and addresses that may hold a token."""
_TESTS = frozenset({"test", "tests"})
_LARGE = 1 << 20
_BINARY = "binary"


def packed_files(folder: Path, exclude: tuple[str, ...] = ()) -> list[Found]:
    """What a prefix has to be packed, sorted by name."""
    return walk(folder, left_out((*exclude, *_OF_THIS_MACHINE), _NOT_PACKED))


def pack_prefix(
    prefix: FilledPrefix, file: Path, compression: Compression, staging: Path, progress: Progress
) -> Written:
    """Write the archive of a prefix; `staging` is a folder for files on the way."""
    progress(PackingStep(f"looking at {prefix.folder}"))
    found = packed_files(prefix.folder, prefix.exclude)
    python = prefix.folder / "bin" / "python"
    compiled = staging / "bytecode"
    compiled.mkdir(parents=True, exist_ok=True)
    if python_runs_here(python):
        sources = [one.name for one in found if _is_worth_compiling(one.name)]
        names = [name for name in sources if not (prefix.folder / name).is_symlink()]
        compile_sources(python, prefix.folder, names, compiled, (PLACEHOLDER, *prefix.paths), progress)
    else:
        progress(PackingStep("packing without bytecode: its Python does not run here"))
    found = sorted([*found, *_bytecode(compiled)], key=lambda one: os.fsencode(one.name))
    total = sum(one.facts.st_size for one in found if not one.is_folder)
    return write_archive(file, _Contents(prefix).members(found), compression, progress, total=total)


def _is_worth_compiling(name: str) -> bool:
    """Whether a worker may import it: of the tests that packages bring, which may be a sixth of all code, none does."""
    is_source = name.startswith("lib/python") and name.endswith(".py")
    return is_source and not any(part in _TESTS for part in name.split("/")[:-1])


def _bytecode(folder: Path) -> list[Found]:
    """The folders of sources are in the prefix; those of bytecode only here."""
    return [one for one in walk(folder, lambda _: False) if "__pycache__" in one.name]


class _Contents:
    """What the archive of a prefix holds."""

    def __init__(self, prefix: FilledPrefix) -> None:
        self._prefix = prefix
        self._paths = PrefixPaths(prefix.paths)
        self._room = _room_for_paths(prefix.folder)
        self._relocated: dict[str, list[str]] = {}
        """The first name of each file that holds the placeholder → all its names."""
        self._too_long: list[str] = []

    def members(self, found: list[Found]) -> Iterator[Member]:
        """In their order, and at last our own, which say what the others hold."""
        names: dict[tuple[int, int], str] = {}
        for one in found:
            inode = (one.facts.st_dev, one.facts.st_ino)
            if one.is_folder:
                yield Member(one.name)
            elif one.is_link:
                yield Member(one.name, link=self._target(one))
            elif one.facts.st_nlink > 1 and inode in names:
                if names[inode] in self._relocated:
                    self._relocated[names[inode]].append(one.name)
                yield Member(one.name, same_as=names[inode])
            else:
                names[inode] = one.name
                yield Member(one.name, self._content(one), executable=bool(one.facts.st_mode & 0o100))
        if self._too_long:
            files = first_of(self._too_long)
            raise errors.error(
                errors.BAD_ENVIRONMENT,
                f"{self._prefix.folder} cannot be moved: its path is in {files}, with no room for another",
                hint="name files that do not need it by `unmoved`, or leave them out by `exclude`",
            )
        yield from self._own()

    def _target(self, one: Found) -> str:
        """A link within the prefix leads to the same place wherever the prefix is."""
        target = os.readlink(one.path)  # noqa: PTH115  # as text: a trailing `/` stays
        for path in (str(self._prefix.folder), *self._prefix.paths, PLACEHOLDER):
            if target == path or target.startswith(f"{path}/"):
                inside = target.removeprefix(path).lstrip("/") or "."
                return os.path.relpath(inside, os.path.dirname(one.name) or ".")  # noqa: PTH120
        return target

    def _content(self, one: Found) -> bytes | Path:
        if one.name.startswith("conda-meta/") and one.name.endswith(".json"):
            return _slim(json_object(one.path))
        if one.facts.st_size > _LARGE and not self._hold(one.path):
            return one.path
        content = one.path.read_bytes()
        if not self._paths.are_in(content):
            return content
        try:
            new = self._paths.replaced(content, one.name, room=self._room.get(one.name, 0))
        except NoRoomError:
            if not any(fnmatch(one.name, pattern) for pattern in self._prefix.unmoved):
                self._too_long.append(one.name)
            return content
        if PLACEHOLDER.encode() in new:
            self._relocated[one.name] = [one.name]
        return new

    def _hold(self, file: Path) -> bool:
        with file.open("rb") as opened, mmap.mmap(opened.fileno(), 0, access=mmap.ACCESS_READ) as content:
            return self._paths.are_in(content)

    def _own(self) -> Iterator[Member]:
        prefix = self._prefix
        activation = activation_of(prefix.folder, (*prefix.paths, PLACEHOLDER), prefix.activation)
        listed = {"placeholder": PLACEHOLDER, "files": list(self._relocated.values())}
        yield Member(OWN_FOLDER)
        yield Member(f"{OWN_FOLDER}/activate.sh", activation.encode())
        yield Member(f"{OWN_FOLDER}/relocate.py", Path(relocate.__file__).read_bytes())
        yield Member(f"{OWN_FOLDER}/relocations.json", json.dumps(listed, indent=0).encode())


def _slim(written: dict[str, Any]) -> bytes:  # Any: JSON
    return msgspec.json.encode({key: written[key] for key in _KEPT_OF_RECORDS if key in written})


def _room_for_paths(prefix: Path) -> dict[str, int]:
    """Binary file → how many bytes the path in it had when the package was built, as conda's records say."""
    found: dict[str, int] = {}
    for record in conda_records(prefix):
        listed: list[dict[str, Any]] = (record.get("paths_data") or {}).get("paths", [])  # Any: JSON
        for one in listed:
            if one.get("file_mode") == _BINARY and one.get("prefix_placeholder"):
                found[one["_path"]] = len(one["prefix_placeholder"])
    return found
