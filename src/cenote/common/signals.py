"""Own the signals that ask a process to end, and how often Python looks for garbage while a command starts.

No other file sets a handler in the driver. What a signal does depends on what the driver is doing:

- it starts or ends: the process ends at once, there is nothing to leave behind in good order;
- it works on something that may be left at any point (`raised`): `Interrupted` is raised there;
- it has workers, jobs or a run's folder in its hands (`noted`): the signal is counted, and whoever has them looks at
  the count. Nothing is torn in the middle, however often it is sent: the first asks for the end, the second for haste.
  A part of it may still be left at any point (`raised` within `noted`: a picture), but the process goes on.

A child that somebody's code forks has none of this: signals do to it what they did before we came.
"""

from __future__ import annotations

import atexit
import gc
import os
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from enum import Enum

TYPE_CHECKING = False  # as in typing, which takes longer to import than all of the above

if TYPE_CHECKING:
    from types import FrameType
    from typing import NoReturn


ASKING_TO_END = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_IMPORTING = "<frozen importlib._bootstrap>"
_exit = os._exit
_SHOW_CURSOR = b"\x1b[?25h"


class Interrupted(KeyboardInterrupt):
    """A signal asked for the end. Only signals raise it: any other KeyboardInterrupt comes from somebody's code."""


class _Reaction(Enum):
    END = "the process ends at once"
    RAISE = "`Interrupted` is raised"
    NOTE = "it is counted"


class Interruptions:
    """The signals that were received, in their order; `cenote cancel` counts as Ctrl-C."""

    def __init__(self) -> None:
        self.numbers: list[int] = []

    @property
    def count(self) -> int:
        """How often somebody asked for the end."""
        return len(self.numbers)

    @property
    def hurried(self) -> bool:
        """Whether somebody asked once more: waiting must be short now."""
        return self.count > 1

    def check(self) -> None:
        """Raise `Interrupted` if somebody asked: for places where the work may be left."""
        if self.numbers:
            raise Interrupted(self.numbers[0])


class _Owner:
    """What this process does with signals. There is one, as there is one set of handlers."""

    def __init__(self) -> None:
        self.received = Interruptions()
        self.reaction = _Reaction.END
        self.is_program = False
        """Whether the process is the command `cenote`, which may be ended, and not somebody's Python."""
        self.code: int | None = None
        """What the process is ending with."""
        self.holds = False
        """Whether something is in our hands that must be brought to its end: the process is not ended by a signal."""
        self._before: dict[int, Callable[[int, FrameType | None], object] | int] = {}

    @property
    def has_them(self) -> bool:
        return bool(self._before)

    def take(self) -> None:
        self.received = Interruptions()
        for number in ASKING_TO_END:
            before = signal.getsignal(number)
            unheard = number == signal.SIGHUP and before is signal.SIG_IGN  # `nohup`: it survives closed terminals
            if before is not None and not unheard:  # None: a handler of some library in C, which could not be put back
                self._before[number] = before
                signal.signal(number, self._hear)

    def give_back(self) -> None:
        self.put_back()
        for number in set(self.received.numbers) - {signal.SIGINT}:
            signal.raise_signal(number)  # the run is over in good order: what was meant for the program goes to it

    def put_back(self) -> None:
        """The handlers that were there before."""
        for number, handler in self._before.items():
            signal.signal(number, handler)
        self._before.clear()

    def ignore(self) -> None:
        """Python's last act would make them deadly again, when the exit code is long decided."""
        for number in self._before:
            signal.signal(number, signal.SIG_IGN)

    def _hear(self, number: int, frame: FrameType | None) -> None:
        self.received.numbers.append(number)
        if self.reaction is _Reaction.NOTE:
            return
        importing = _is_importing(frame)  # imports may hide what is raised in them
        if self.reaction is _Reaction.END or (
            self.is_program and not self.holds and (importing or self.received.hurried)
        ):
            self._end()
        if not (self.holds and importing) or self.received.hurried:
            raise Interrupted(number)

    def _end(self) -> NoReturn:
        if self.code is None:
            cursor = _SHOW_CURSOR if os.isatty(2) else b""
            with suppress(OSError):  # the terminal is closed
                os.write(2, cursor + b"cenote: interrupted\n")
        _exit(exit_code() if self.code is None else self.code)


_owner = _Owner()


class _Fork(threading.local):
    """Signals wait while a process is forked: one that comes for the child finds the handlers that are its own."""

    waiting: set[int] | None = None

    def begin(self) -> None:
        if _owner.has_them:
            self.waiting = {int(number) for number in signal.pthread_sigmask(signal.SIG_BLOCK, ASKING_TO_END)}

    def end(self) -> None:
        if self.waiting is not None:
            before, self.waiting = self.waiting, None
            signal.pthread_sigmask(signal.SIG_SETMASK, before)

    def end_in_child(self) -> None:
        _owner.put_back()
        self.end()


_fork = _Fork()
os.register_at_fork(before=_fork.begin, after_in_parent=_fork.end, after_in_child=_fork.end_in_child)


def take_over() -> None:
    """For the whole process, from now on: called once it is known that it is the command `cenote`."""
    if not _owner.has_them:
        _owner.is_program = True
        _owner.take()
        atexit.register(_owner.ignore)  # the first to be registered is the last to be called


def is_program() -> bool:
    """Whether the process is the command `cenote`, and not somebody's Python."""
    return _owner.is_program


def leave(code: int) -> None:
    """The command is over and the process ends with this code, whatever is received from now on."""
    _owner.code = code
    _owner.reaction = _Reaction.END


def exit_code() -> int:
    """By custom: 128 and the number of the signal that was received first."""
    return 128 + (_owner.received.numbers or [int(signal.SIGINT)])[0]


def interrupt(received: Interruptions) -> None:
    """Do what Ctrl-C does to whoever has these, from any thread: the main one hears a signal, wherever it is."""
    if received is _owner.received and _owner.has_them:
        main = threading.main_thread().ident
        assert main is not None, "it is running"
        signal.pthread_kill(main, signal.SIGINT)
    else:
        received.numbers.append(int(signal.SIGINT))


@contextmanager
def raised() -> Iterator[None]:
    """Work that may be left at any point: a signal raises `Interrupted` in it."""
    with _reacting(_Reaction.RAISE):
        yield


@contextmanager
def noted() -> Iterator[Interruptions]:
    """Work that must be brought to its end: signals are counted, and nothing else.

    In a thread other than the main one signals are not ours: they belong to whoever started the thread.
    """
    with _reacting(_Reaction.NOTE) as received:
        yield received


@contextmanager
def _reacting(reaction: _Reaction) -> Iterator[Interruptions]:
    if threading.current_thread() is not threading.main_thread():
        yield Interruptions()
        return
    before, held, outermost = _owner.reaction, _owner.holds, not _owner.has_them
    if outermost:
        _owner.take()
    try:
        try:
            _owner.holds = held or reaction is _Reaction.NOTE
            _owner.reaction = reaction
            yield _owner.received
        finally:
            _owner.reaction = _Reaction.NOTE  # from here on nothing is raised, so that the rest is done
    finally:
        _owner.reaction, _owner.holds = before, held
        if outermost:
            _owner.give_back()


def _is_importing(frame: FrameType | None) -> bool:
    while frame is not None and frame.f_code.co_filename != _IMPORTING:
        frame = frame.f_back
    return frame is not None


# Let Python look for garbage less often while a command starts: what it imports stays, however often it looks.


_OBJECTS = 300_000
"""That may come, and not go, before Python looks: more than any command makes as it starts."""
_FEW = (20_000, 5, 300)
"""Objects that came and did not go before Python looks at these; how often it does so before it looks at those that it
looked at before; how often that before it looks at all, which takes a tenth of a second for each million."""
_usual: list[tuple[int, int, int]] = []


def leave_alone() -> None:
    """For a program of ours, as it starts."""
    _usual.append(gc.get_threshold())
    gc.set_threshold(_OBJECTS)


def look_at_few() -> None:
    """Before others are served, who wait while Python looks. Nothing in programs of others."""
    if _usual:
        _usual.clear()
        gc.freeze()
        gc.set_threshold(*_FEW)


def look_again() -> None:
    """Before much is computed: as usual, but never again at what is there by now. Nothing in programs of others."""
    if _usual:
        gc.freeze()
        gc.set_threshold(*_usual.pop())
