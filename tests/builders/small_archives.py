"""Make archives as packed environments are sent: a few small files, and a Python that is a shell script."""

from __future__ import annotations

import gzip
import hashlib
import io
import subprocess
import tarfile
from collections.abc import Mapping
from pathlib import Path

from cenote.execution.packing.archive import Archive, Compression

PYTHON = "#!/bin/sh\necho python in $CENOTE_PREFIX\n"
ACTIVATE = 'export CENOTE_PREFIX="$CENOTE_HERE" PATH="$CENOTE_HERE/bin:$PATH"\n'


def small_archive(
    folder: Path,
    files: Mapping[str, str | bytes] | None = None,
    *,
    compression: Compression = "gzip",
    platform: str = "noarch",
    unpacked: int = 100_000,
    placeholder: str = "",
) -> Archive:
    """With these files beside, or instead of, `bin/python` and the script that activates."""
    members = {"bin/python": PYTHON, ".cenote/activate.sh": ACTIVATE, **(files or {})}
    plain = io.BytesIO()
    with tarfile.open(fileobj=plain, mode="w") as tar:
        for name, content in sorted(members.items()):
            data = content.encode() if isinstance(content, str) else content
            member = tarfile.TarInfo(name)
            member.size, member.mode = len(data), 0o755 if name.startswith("bin/") else 0o644
            tar.addfile(member, io.BytesIO(data))
    if compression == "gzip":
        data = gzip.compress(plain.getvalue(), mtime=0)
    else:
        data = subprocess.run(["zstd", "-c"], input=plain.getvalue(), capture_output=True, check=True).stdout
    digest = hashlib.sha256(data).hexdigest()
    file = folder / f"small-{digest[:16]}.tar.{'gz' if compression == 'gzip' else 'zst'}"
    file.write_bytes(data)
    return Archive(file, digest, len(data), unpacked, compression, platform, placeholder)
