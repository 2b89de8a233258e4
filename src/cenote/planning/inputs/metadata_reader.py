"""Run as a program: it reads the metadata of the files that it is asked for, and ends."""

from __future__ import annotations

import json
import pickle
import sys
from pathlib import Path

from cenote.analysis.sources.interface import FileInfo
from cenote.language.plugins.kinds import PluginKind
from cenote.language.plugins.registry import make
from cenote.planning.inputs.metadata import FileAnswer, describe_one
from cenote.planning.inputs.metadata_cache import Packer


def main(asked: Path, answered: Path) -> None:
    """Answer the question in one file by writing another."""
    question = json.loads(asked.read_text())
    source = make(PluginKind.SOURCE, question["kind"], question["settings"])
    packer = Packer()
    answers: list[FileAnswer] = []
    for url in question["urls"]:
        answer = describe_one(source, url)
        answers.append(packer.pack(answer) if isinstance(answer, FileInfo) else answer)
    answered.write_bytes(pickle.dumps(answers, protocol=5))


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
