"""Turn LLVM's language into machine code of this processor, once: the code is kept in the user's cache folder.

Nothing is reordered that could change a last bit: no fast mathematics, no fused multiplication and addition.
"""

from __future__ import annotations

import ctypes
import hashlib
import logging
import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import field
from functools import cached_property
from pathlib import Path
from typing import Any

from cenote.common import storage
from cenote.common.cache_file import cache_folder
from cenote.common.errors import CenoteError
from cenote.common.values import dataclass

_LOG = logging.getLogger(__name__)
_FOLDER = "compiled"
_DIGEST = 32
MOST_FILES = 2_000
"""Of kept code; beyond that the oldest go."""

Function = Callable[..., int]


@dataclass
class Compiler:
    """Compiles, and remembers what it compiled; one per process is enough."""

    _functions: dict[str, Function] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)
    compiled: int = 0
    """How many functions were compiled here rather than found."""

    def function(self, text: str, name: str, pointers: int) -> Function:
        """The function of a text: it takes a number and so many pointers, and returns a number."""
        with self._lock:
            key = hashlib.blake2b(f"{self._machine}\0{text}".encode(), digest_size=16).hexdigest()
            if key not in self._functions:
                self._functions[key] = self._loaded(self._kept(key, text), name, pointers)
            return self._functions[key]

    @cached_property
    def _llvm(self) -> Any:
        import llvmlite.binding as llvm  # 0.1 s, and only those who compute much need it

        llvm.initialize_native_target()
        llvm.initialize_native_asmprinter()
        return llvm

    @cached_property
    def _machine(self) -> str:
        """What code depends on besides its text."""
        from llvmlite import __version__ as version

        llvm = self._llvm
        return f"{version} {llvm.get_host_cpu_name()} {llvm.get_host_cpu_features().flatten()}"

    @cached_property
    def _target(self) -> Any:
        llvm = self._llvm
        target = llvm.Target.from_default_triple()
        features = llvm.get_host_cpu_features().flatten()
        return target.create_target_machine(cpu=llvm.get_host_cpu_name(), features=features, opt=2, jit=True)

    def _kept(self, key: str, text: str) -> bytes:
        file = cache_folder() / _FOLDER / key
        code = _read(file)
        if code is None:
            code = self._compile(text)
            _write(file, code)
        return code

    def _compile(self, text: str) -> bytes:
        llvm = self._llvm
        module = llvm.parse_assembly(text)
        builder = llvm.create_pass_builder(self._target, llvm.create_pipeline_tuning_options(speed_level=2))
        passes = llvm.create_new_function_pass_manager()  # all of level 2 take three times as long, for nothing here
        passes.add_sroa_pass()
        passes.add_instruction_combine_pass()
        passes.add_jump_threading_pass()
        passes.add_instruction_combine_pass()
        passes.add_aggressive_dce_pass()
        passes.add_simplify_cfg_pass()
        for function in module.functions:
            if not function.is_declaration:
                passes.run(function, builder)
        self.compiled += 1
        code: bytes = self._target.emit_object(module)
        return code

    def _loaded(self, code: bytes, name: str, pointers: int) -> Function:
        llvm = self._llvm
        target = llvm.Target.from_default_triple()
        machine = target.create_target_machine(jit=True)  # an engine takes its machine over
        engine = llvm.create_mcjit_compiler(llvm.parse_assembly(""), machine)
        engine.add_object_file(llvm.ObjectFileRef.from_data(code))
        engine.finalize_object()
        kind = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_int64, *[ctypes.c_void_p] * pointers)
        made = kind(engine.get_function_address(name))
        made.engine = engine  # type: ignore[attr-defined]  # the code lives as long as it
        return made


def _read(file: Path) -> bytes | None:
    """Kept code, if it is what was written: other bytes would end this process."""
    try:
        content = file.read_bytes()
    except OSError:
        return None
    digest, code = content[:_DIGEST], content[_DIGEST:]
    return code if hashlib.blake2b(code, digest_size=_DIGEST).digest() == digest else None


def _write(file: Path, code: bytes) -> None:
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        storage.write_private(file, hashlib.blake2b(code, digest_size=_DIGEST).digest() + code)
        _forget_the_oldest(file.parent)
    except (OSError, CenoteError) as problem:
        _LOG.info("compiled code is not kept: %s", problem)


def _forget_the_oldest(folder: Path) -> None:
    files = list(folder.iterdir())
    if len(files) > MOST_FILES:
        for file in sorted(files, key=lambda one: one.stat().st_mtime)[: len(files) - MOST_FILES // 2]:
            with suppress(OSError):
                file.unlink()


COMPILER = Compiler()
"""The one of this process."""
