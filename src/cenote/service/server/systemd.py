"""Write the text of a systemd unit that keeps a service going."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from cenote.common.shell import ALONE

_PASSED_ON = ("PATH", "SLURM_CONF", "CONDOR_CONFIG", "TMPDIR")
"""Variables without which batch systems are not found: systemd starts with few of its own."""
_UNIT = """\
# {where}
[Unit]
Description=Cenote: pools that outlive runs ({home})
{after}
[Service]
Type=exec
{user}{environment}ExecStart={start}
WorkingDirectory={folder}
UMask=0077
Restart=on-failure
RestartSec=5
# A signal goes to the service alone. Stopped, it ends its workers itself; killed, its workers go on with what they run
# and find the next one, which systemd must not keep them from by killing all that is left.
KillMode=process
TimeoutStopSec=180

[Install]
WantedBy={target}
"""
_OWN = "~/.config/systemd/user/cenote.service; then: systemctl --user enable --now cenote; loginctl enable-linger"
_SYSTEMS = "/etc/systemd/system/cenote.service; then: systemctl enable --now cenote"


def unit_text(
    *,
    home: Path,
    file: Path | None,
    host: str | None,
    listening: Sequence[str] = (),
    system_user: str | None,
    variables: Mapping[str, str] = os.environ,
) -> str:
    """For the user's own systemd, or for that of the system, where the service runs as this user. `listening` are the
    words by which others may connect."""
    command = [sys.executable, *ALONE, "-m", "cenote", "serve"]
    command += [str(file.absolute())] if file else []
    command += ["--home", str(home), *(("--host", host) if host else ()), *listening]
    set_too = {name: variables[name] for name in _PASSED_ON if variables.get(name)}
    return _UNIT.format(
        where=_SYSTEMS if system_user else _OWN,
        home=str(home).replace("%", "%%"),
        after="After=network-online.target\nWants=network-online.target\n" if system_user else "",
        user=f"User={system_user}\n" if system_user else "",
        environment="".join(f"Environment={_quoted(f'{name}={value}')}\n" for name, value in set_too.items()),
        start=" ".join(_quoted(word).replace("$", "$$") for word in command),
        folder="/" if system_user else "%h",
        target="multi-user.target" if system_user else "default.target",
    )


def _quoted(word: str) -> str:
    """One word, as systemd reads it: `%` and `\\` have a meaning also within quotes."""
    escaped = word.replace("\\", "\\\\").replace('"', '\\"').replace("%", "%%").replace("\n", "\\n")
    return f'"{escaped}"' if escaped != word or any(letter in word for letter in " \t';#") else word
