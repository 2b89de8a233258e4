"""The operation `hep.inference`: answers of an ONNX model as new columns."""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Mapping
from pathlib import Path
from threading import Lock
from typing import Annotated, Any, ClassVar

from pydantic import Discriminator, Field, PrivateAttr, Tag, field_validator
from pydantic_core import PydanticCustomError

from cenote.analysis.operations.interface import Operation, Result
from cenote.analysis.operations.support.events import Events
from cenote.analysis.operations.support.models.onnx_model import MEMORY, Device, OnnxModel, is_installed
from cenote.analysis.operations.support.models.tensors import columns_in, names_in
from cenote.common import errors
from cenote.language.plugins.resources import workflow_file
from cenote.language.plugins.settings import Memory, Settings
from cenote.language.schema.forms import OneOrMany, Positive

_BY_FORM = Discriminator(lambda given: "mapping" if isinstance(given, Mapping | Settings) else "plain")
"""Which of two forms is meant, so that a mistake is told about that one."""
_Columns = Annotated[tuple[str, ...], OneOrMany(), Field(min_length=1)]
_Names = Annotated[tuple[str | None, ...], OneOrMany(), Field(min_length=1)]
_ByInput = Annotated[dict[str, _Columns], Field(min_length=1)]
_ByOutput = Annotated[dict[str, _Names], Field(min_length=1)]

_opening = Lock()
"""Held while a model is opened: a worker with several slots runs tasks in threads."""


class ModelOfStage(Settings):
    """A model that an earlier stage makes."""

    stage: str
    """The stage: its product is the bytes of an ONNX model, and it is among the `needs` of this one."""


class Inference(Operation):
    """Evaluates an ONNX model with onnxruntime.

    Columns with one number per event give one answer per event. Columns of lists give one answer per element; columns
    with one number per event may stand beside them.
    """

    example: ClassVar[str] = """
    - id: Score
      op: hep.inference
      params:
        model: model.onnx
        inputs: [MET_pt, nMuon]
        outputs: score
    """
    software: ClassVar[Mapping[str, str]] = {"onnxruntime": "ml"}

    model: Annotated[Annotated[str, Tag("plain")] | Annotated[ModelOfStage, Tag("mapping")], _BY_FORM]
    """A file beside the workflow; or `{stage: TrainModel}`: the product of that stage, as bytes."""
    inputs: Annotated[Annotated[_Columns, Tag("plain")] | Annotated[_ByInput, Tag("mapping")], _BY_FORM]
    """Columns, in the order in which the model takes them. For a model with several inputs: input → column, or list.
    Numbers that the type of the input cannot hold are an error; NaN and infinite ones are handed on."""
    outputs: Annotated[Annotated[_Names, Tag("plain")] | Annotated[_ByOutput, Tag("mapping")], _BY_FORM]
    """The name of the new column; for several numbers per row, a list, in which `null` leaves one out. For a model with
    several outputs: output → name, or list; outputs that are not named are left out."""
    batch: Positive | None = None
    """Rows that one call of the model evaluates, rounded up to a multiple of 64. By default `memory` decides."""
    memory: Memory = Field(MEMORY, validate_default=True, ge=1_000_000)
    """What one batch may take. It is compared with the inputs and outputs of a row and the size of the model."""
    threads: Positive = 1
    """Threads that one task uses. Tasks run beside each other already; more threads can change the last bits."""
    device: Device = "auto"
    """`cuda` for a GPU, `cpu`, or `auto`: a GPU where there is one and onnxruntime can use it. Last bits differ."""

    _opened: dict[str, OnnxModel] = PrivateAttr(default_factory=dict)
    """By the digest of its bytes; a model that is a file needs none."""

    @field_validator("outputs")
    @classmethod
    def _different(cls, outputs: Any) -> Any:
        names = names_in(outputs)
        if not names:
            raise PydanticCustomError("no_output", "should name at least one column")
        if twice := next((name for name in names if names.count(name) > 1), None):
            raise PydanticCustomError("twice", "'{name}' is the name of two columns", {"name": twice})
        return outputs

    def reads(self) -> Collection[str]:
        """The columns of all inputs."""
        return columns_in(self.inputs)

    def adds(self) -> Collection[str]:
        """The names of the answers."""
        return names_in(self.outputs)

    def depends_on_files(self) -> Collection[str]:
        """The model, where it is a file."""
        return (self.model,) if isinstance(self.model, str) else ()

    def depends_on_products(self) -> Collection[str]:
        """The stage that makes the model, where one does."""
        return () if isinstance(self.model, str) else (self.model.stage,)

    def check_files(self, files: Mapping[str, Path]) -> None:
        """The model has the inputs and outputs that the settings name; workers find out where this has no software."""
        if is_installed():
            for path in files.values():
                self._open(path.read_bytes(), device="cpu").wired(self.inputs, self.outputs)

    def prepare(self) -> None:
        """Open the model, where it is a file."""
        if isinstance(self.model, str):
            self._opened[""] = self._open(workflow_file(self.model).read_bytes())

    def keeps_every_event(self) -> bool:
        """It adds columns."""
        return True

    def run(self, events: Events) -> Result:
        """Evaluate the model on all rows."""
        model = self._model(events)
        return Result(events.with_columns(model.columns(events, inputs=self.inputs, outputs=self.outputs)))

    def _model(self, events: Events) -> OnnxModel:
        """Opened once, whatever the number of tasks."""
        if isinstance(self.model, str):
            with _opening:
                if not self._opened:
                    self.prepare()
                return self._opened[""]
        content = self._product(events.product(self.model.stage), self.model.stage)
        digest = hashlib.blake2b(content).hexdigest()
        with _opening:
            if digest not in self._opened:
                self._opened[digest] = self._open(content)
            return self._opened[digest]

    def _product(self, product: Any, stage: str) -> bytes:
        if isinstance(product, bytes):
            return product
        raise errors.error(
            errors.BAD_VALUE,
            f"stage '{self.stage}': the product of stage '{stage}' is a {type(product).__name__}, no ONNX model",
            hint="return the bytes of the model: model.SerializeToString()",
        )

    def _open(self, content: bytes, *, device: Device | None = None) -> OnnxModel:
        name = f"the model '{self.model}'" if isinstance(self.model, str) else f"the model of '{self.model.stage}'"
        return OnnxModel(
            content,
            name=f"stage '{self.stage}': {name}",
            device=device or self.device,
            threads=self.threads,
            batch=self.batch,
            memory=self.memory,
        )
