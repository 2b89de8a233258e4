"""The operation `hep.correctionlib`: scale factors and other corrections from a correctionlib file."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Annotated, Any, ClassVar, Self

import numpy as np
from pydantic import AliasChoices, BeforeValidator, Field

from cenote import errors
from cenote.expressions.arrays import dimensions
from cenote.expressions.expression import ExpressionText
from cenote.expressions.lists import Lists, common_counts, lists_of
from cenote.names import listed
from cenote.operations.interface import Result
from cenote.operations.support.candidates import refuse_all_existing
from cenote.operations.support.evaluation import evaluate, event_column
from cenote.operations.support.events import Column, Events
from cenote.operations.support.lookup import LookupOperation
from cenote.plugins.settings import AlsoWritten

_NUMBERS = {"real": np.float64, "int": np.int64}


def _columns(value: Any) -> Any:  # Any: whatever the YAML holds
    return {value: {}} if isinstance(value, str) else value


class Correctionlib(LookupOperation[Any]):
    """Evaluates a correction for each event, or for each object, and adds what comes out."""

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

    def check_files(self, files: Mapping[str, Path]) -> None:
        """The correction is there, and its inputs are the ones that are given; without correctionlib nobody knows."""
        try:
            import correctionlib  # noqa: F401  # whether it is here is what is asked
        except ImportError:
            return  # the plan says what is missing
        super().check_files(files)

    def keeps_every_event(self) -> bool:
        """It adds columns."""
        return True

    def run(self, events: Events) -> Result:
        """Evaluate all elements at once."""
        correction = self.contents
        values = {name: event_column(evaluate(text, events), events, f"'{text}'") for name, text in self.inputs.items()}
        lists = {name: lists_of(value) for name, value in values.items() if dimensions(value) > 1}
        counts = common_counts(list(lists.items()))
        numbers = {name: _flat(value, lists.get(name), counts) for name, value in values.items()}
        added: dict[str, Column] = {}
        for output, texts in self.outputs.items():
            given = [
                texts[one.name] if one.name in texts else numbers[one.name].astype(_NUMBERS[one.type], copy=False)
                for one in correction.inputs
            ]
            found = (
                np.asarray(correction.evaluate(*given), np.float64)
                if len(next(iter(numbers.values())))
                else np.zeros(0)
            )
            added[output] = found if counts is None else Lists(found, counts).column()
        return Result(events.with_columns(added))

    def read(self, path: Path) -> Any:  # Any: correctionlib publishes no types for what it finds
        """The correction; it takes the inputs that are given."""
        from correctionlib import CorrectionSet

        try:
            found = CorrectionSet.from_file(str(path))
        except (RuntimeError, OSError, ValueError) as problem:
            raise errors.error(errors.BAD_INPUT, f"{self.file} is no file of correctionlib: {problem}") from problem
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


def _flat(value: Column, lists: Lists | None, counts: Any) -> Any:  # Any: arrays, as correctionlib takes them
    if lists is not None:
        return np.asarray(lists.content)
    plain = np.asarray(value)
    return plain if counts is None else np.repeat(plain, counts)
