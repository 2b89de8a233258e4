"""Run the command by which a user renews a credential; of its output only a harmless line is ever shown."""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

from cenote.common.errors import BAD_CREDENTIAL, Problem, error, printable
from cenote.common.shell import run_command
from cenote.language.plugins.quantities import Converted

_SECONDS = 120.0
"""A command that asks for a passphrase gets none, and waits."""
_SECRET = re.compile(r"[A-Za-z0-9+=_-]{20,}|.{61,}")
"""In a word: as long as pieces of keys and tokens are, and few other words."""
_LONGEST = 200


def _command(written: Any) -> tuple[str, ...]:  # Any: whatever the YAML holds
    """The words of a command, which a file writes as text or as a list."""
    if isinstance(written, str):
        try:
            words = shlex.split(written)
        except ValueError as problem:
            raise ValueError(f"the command cannot be split into words: {problem}") from None
    elif isinstance(written, Sequence) and all(isinstance(word, str | int | float) for word in written):
        words = [str(word) for word in written]
    else:
        raise ValueError("should be a command: text, or a list of words")
    if not words or not words[0]:
        raise ValueError("the command is empty")
    return tuple(words)


def _described(schema: dict[str, Any]) -> dict[str, Any]:
    examples = ["voms-proxy-init --voms cms --rfc", ["oidc-token", "--aud", "storage", "wlcg"]]
    return {"type": ["string", "array"], "items": schema.get("items", {"type": "string"}), "examples": examples}


RenewalCommand = Annotated[tuple[str, ...], Converted(_command, "command", _described)]
"""A program and its arguments; no shell reads them."""


def run_renewal(command: Sequence[str]) -> None:
    """Run it to its end. Raises CenoteError where it fails; the words of the command may be secret and stay unsaid."""
    program = Path(command[0]).name
    try:
        done = run_command([str(Path(command[0]).expanduser()), *command[1:]], seconds=_SECONDS, hears_ctrl_c=False)
    except FileNotFoundError:
        raise error(BAD_CREDENTIAL, f"the renewal command '{program}' was not found") from None
    except TimeoutError:
        words = f"the renewal command '{program}' did not end within {_SECONDS:.0f} s"
        raise error(BAD_CREDENTIAL, words, hint="it must not ask for a passphrase") from None
    except OSError as problem:
        words = f"the renewal command '{program}' cannot be started: {problem.strerror}"
        raise error(BAD_CREDENTIAL, words) from None
    if done.returncode:
        said = harmless_line(done.stderr)
        words = f"the renewal command '{program}' failed with exit code {done.returncode}"
        raise error(BAD_CREDENTIAL, words, details=(f"its output: {said}",) if said else ())


def in_vain(command: Sequence[str], still: Sequence[str]) -> Problem:
    """The problem with a command that ended well and did not help; `still` is what is wrong after it."""
    words = f"the renewal command '{Path(command[0]).name}' ended without an error, but did not help"
    return Problem(BAD_CREDENTIAL, words, details=tuple(still))


def harmless_line(text: str) -> str:
    """The last line with `…` for every word that may be a piece of a secret."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    words = [_without_secrets(word) for word in lines[-1].split()] if lines else []
    return printable(" ".join(words))[:_LONGEST]


def _without_secrets(word: str) -> str:
    return "…" if _SECRET.search(word) else word
