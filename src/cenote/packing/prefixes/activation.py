"""Write what a shell on the node runs to use an environment: `activate.sh` of an archive."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from cenote.packing.software import json_object

_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_OF_ENVIRONMENTS = """\
export CENOTE_PREFIX="$CENOTE_HERE"
export PATH="$CENOTE_HERE/bin:$PATH"
"""
_OF_CONDA = """\
export CONDA_PREFIX="$CENOTE_HERE"
"""
_SCRIPTS = """\
# Packages write these for bash: what another shell cannot read would end it. What they print is no output of a worker.
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
