"""The operation `hep.correctionlib`: scale factors and other corrections from a correctionlib file."""

from __future__ import annotations

import gzip
import json
import re
from collections.abc import Collection, Mapping, Sequence
from itertools import product
from pathlib import Path
from typing import Annotated, Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray
from pydantic import AliasChoices, BeforeValidator, Field

from cenote.analysis.expressions.arrays import Lists, common_counts, dimensions, lists_of
from cenote.analysis.expressions.parser import ExpressionText
from cenote.analysis.expressions.problems import EvaluationError
from cenote.analysis.operations.interface import Result
from cenote.analysis.operations.support.evaluation import evaluate, event_column, only_there, there_in_all, with_missing
from cenote.analysis.operations.support.events import Column, Events
from cenote.analysis.operations.support.lookup import LookupOperation
from cenote.analysis.operations.support.object_rows import refuse_all_existing
from cenote.common import errors
from cenote.common.text import listed
from cenote.language.plugins.settings import AlsoWritten

_NUMBERS = {"real": np.float64, "int": np.int64}
_NO_VALUE = re.compile(r"for input argument (?P<place>\d+) val(ue)?: (?P<value>.*)")
"""What correctionlib (2.9) says where a value has no bin or category."""


def _columns(value: Any) -> Any:  # Any: whatever the YAML holds
    return {value: {}} if isinstance(value, str) else value


class Correctionlib(LookupOperation[Any]):
    """Evaluates a correction for each event, or for each object, and adds what comes out; missing where an input is."""

    example: ClassVar[str] = """
    - id: MuonScale
      op: hep.correctionlib
      params:
        file: muons.json.gz
        correction: NUM_TightID
        inputs: {abseta: "abs(Muon_eta)", pt: "max(Muon_pt, 15)"}
        outputs: {muon_sf: {scale_factors: nominal}, muon_sf_up: {scale_factors: systup}}
    """
    software: ClassVar[Mapping[str, str]] = {"correctionlib": "corrections"}

    file: str = Field(validation_alias=AliasChoices("file", "path"))
    """A file of correctionlib, `.json` or `.json.gz`, beside the workflow."""
    correction: str
    """The name of the correction, or of a compound correction, in the file."""
    inputs: Annotated[dict[str, ExpressionText], Field(min_length=1)]
    """Input of the correction that is a number → column or expression; lists give a value for each element."""
    outputs: Annotated[
        dict[str, dict[str, str]],
        BeforeValidator(_columns),
        Field(min_length=1),
        AlsoWritten({"type": "string"}),
    ]
    """Column to add → the inputs that are text, such as the name of a variation. Just a name where there are none."""

    def resolve(self, columns: Collection[str]) -> Self:
        """Raises `column-clash` where a column is there already."""
        refuse_all_existing(self.adds(), columns, self.stage)
        return super().resolve(columns)

    def reads(self) -> Collection[str]:
        """The names in the expressions."""
        return self.names_in(*self.inputs.values())

    def adds(self) -> Collection[str]:
        """The columns that are named."""
        return tuple(self.outputs)

    def part_for(self, column: str | None) -> Self:
        """One of the outputs."""
        outputs = {name: texts for name, texts in self.outputs.items() if name == column}
        return self.model_copy(update={"outputs": outputs}) if outputs else self

    def check_files(self, files: Mapping[str, Path]) -> None:
        """The correction is there, and its inputs are the ones that are given; without correctionlib nobody knows."""
        try:
            import correctionlib  # noqa: F401  # whether it is here is what is asked
        except ImportError:
            return  # the plan says what is missing
        super().check_files(files)
        for path in files.values():
            self._check_texts(_written(path))

    def _check_texts(self, written: Mapping[str, Any]) -> None:
        """Inputs that are text have values that the correction knows, as far as the file says which."""
        corrections = {one["name"]: one for one in written["corrections"]}
        compounds = {one["name"]: one for one in written.get("compound_corrections") or ()}
        names = compounds[self.correction]["stack"] if self.correction in compounds else [self.correction]
        asked = dict.fromkeys(item for texts in self.outputs.values() for item in texts.items())
        for name, (key, text) in product(names, asked):
            known = _categories(corrections[name]["data"], key)
            if known is not None and text not in known:
                words = f"correction '{name}' of {self.file} has no {key} '{text}'"
                raise errors.CenoteError(errors.unknown_name(errors.BAD_VALUE, words, text, known, what=key))

    def keeps_every_event(self) -> bool:
        """It adds columns."""
        return True

    def run(self, events: Events) -> Result:
        """Evaluate all elements at once."""
        correction = self.contents
        values = {name: event_column(evaluate(text, events), events, f"'{text}'") for name, text in self.inputs.items()}
        lists = {name: lists_of(value) for name, value in values.items() if dimensions(value) > 1}
        counts = common_counts(list(lists.items()))
        flat = {name: _flat(value, lists.get(name), counts) for name, value in values.items()}
        there = there_in_all(flat.values())
        numbers = {name: only_there(value, there) for name, value in flat.items()}
        added: dict[str, Column] = {}
        for output, texts in self.outputs.items():
            given = [
                texts[one.name] if one.name in texts else numbers[one.name].astype(_NUMBERS[one.type], copy=False)
                for one in correction.inputs
            ]
            found = with_missing(self._evaluated(correction, given, len(next(iter(numbers.values())))), there)
            added[output] = found if counts is None else Lists(found, counts).column()
        return Result(events.with_columns(added))

    def _evaluated(self, correction: Any, given: Sequence[Any], size: int) -> NDArray[np.float64]:
        """What it gives for arrays and texts. Any: correctionlib publishes no types for what it finds."""
        if size == 0:
            return np.zeros(0)
        try:
            return np.asarray(correction.evaluate(*given), np.float64)
        except (RuntimeError, IndexError, ValueError) as problem:
            raise EvaluationError(self._in_words(correction, str(problem))) from None

    def _in_words(self, correction: Any, said: str) -> str:
        found = _NO_VALUE.search(said)
        if found is None:
            return f"correction '{self.correction}' of {self.file} cannot be evaluated: {said}"
        name, value = correction.inputs[int(found["place"])].name, found["value"].strip()
        if correction.inputs[int(found["place"])].type == "string":
            return f"correction '{self.correction}' of {self.file} has no value for {name} '{value}'"
        return (
            f"correction '{self.correction}' of {self.file} has no value for {name} = {value}: keep {name} within its "
            f"limits, as in clip({self.inputs[name]}, low, high), or leave such objects out"
        )

    def read(self, path: Path) -> Any:  # Any: correctionlib publishes no types for what it finds
        """The correction; it takes the inputs that are given."""
        from correctionlib import CorrectionSet

        try:
            found = CorrectionSet.from_file(str(path))
        except (RuntimeError, OSError, ValueError) as problem:
            raise errors.error(errors.BAD_INPUT, f"{self.file} is not a correctionlib file: {problem}") from problem
        known = {**dict(found.items()), **dict(found.compound.items())}
        if self.correction not in known:
            words = f"{self.file} has no correction '{self.correction}'"
            raise errors.CenoteError(
                errors.unknown_name(errors.BAD_VALUE, words, self.correction, known, what="corrections")
            )
        correction = known[self.correction]
        for output, texts in self.outputs.items():
            self._check_inputs(correction, output, texts)
        return correction

    def _check_inputs(self, correction: Any, output: str, texts: Mapping[str, str]) -> None:
        wanted = {one.name: one.type for one in correction.inputs}
        text = [name for name, kind in wanted.items() if kind == "string"]
        lacking = [name for name in wanted if name not in (texts if name in text else self.inputs)]
        odd = [name for name in (*self.inputs, *texts) if name not in wanted]
        if not lacking and not odd:
            return
        said = [f"it needs {listed(lacking)}"] if lacking else []
        said += [f"it has no {listed(odd)}"] if odd else []
        shown = listed(f"{name} ({'text' if kind == 'string' else kind})" for name, kind in wanted.items())
        hint = f"name {listed(n for n in lacking if n in text)} in `outputs`" if set(lacking) & set(text) else None
        raise errors.error(
            errors.BAD_VALUE,
            f"inputs of correction '{self.correction}' for '{output}': {'; '.join(said)}",
            details=(f"inputs: {shown}",),
            hint=hint,
        )


def _written(path: Path) -> Any:  # Any: JSON
    content = path.read_bytes()
    return json.loads(gzip.decompress(content) if path.suffix == ".gz" else content)


def _categories(node: Any, key: str) -> list[str] | None:  # Any: a part of a correction, as JSON
    """The texts that an input may be; None where that is not said, or any text has a value."""
    found: dict[str, None] = {}
    waiting = [node]
    while waiting:
        part = waiting.pop()
        if isinstance(part, Mapping):
            if part.get("nodetype") == "category" and part.get("input") == key:
                if part.get("default") is not None:
                    return None
                found |= {str(one["key"]): None for one in part["content"]}
            waiting.extend(part.values())
        elif isinstance(part, list) and part and not isinstance(part[0], int | float):
            waiting.extend(part)
    return list(found) or None


def _flat(value: Column, lists: Lists | None, counts: Any) -> Column:  # Any: lengths, or None
    """One entry after the other; values of events are repeated for each of their objects."""
    if lists is not None:
        return lists.content
    return value if counts is None else value[np.repeat(np.arange(len(counts)), counts)]
