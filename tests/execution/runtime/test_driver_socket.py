"""The driver's socket: its owner reaches it, strangers do not, and nothing dead stays."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from builders.plans import a_plan
from cenote.common import signals
from cenote.common.errors import CenoteError
from cenote.common.signals import Interruptions
from cenote.engine.messages import RunStarted
from cenote.execution.runs.driver.cancel import cancel_run
from cenote.execution.runs.driver.socket import DriverSilentError, ForeignDriverError, ask, open_socket
from cenote.execution.runs.folder import LOCK, Pulse, RunFolder, lock_owner, name_socket
from cenote.execution.runs.follow import STALLED_SECONDS, FollowedRun
from cenote.execution.runs.journal import Journal
from cenote.planning.record import PlanRecord, write_record

NOBODY = 65534
STRANGER = """
import os, socket, sys
os.setgroups([]); os.setgid(65534); os.setuid(65534)
try:
    os.listdir(os.path.dirname(sys.argv[1]))
except PermissionError:
    print("hidden")
line = socket.socket(socket.AF_UNIX)
line.settimeout(10)
try:
    line.connect(sys.argv[1])
    line.sendall(b'{"verb":"cancel"}\\n')
    print("answered" if line.recv(100) else "hung up")
except PermissionError:
    print("refused")
except OSError:
    print("hung up")
"""
"""A process of another user that knows the path."""
CANCELLING_STRANGER = """
import os, sys
from pathlib import Path
from cenote.common.errors import CenoteError
from cenote.execution.runs.driver.cancel import cancel_run
os.setgroups([]); os.setgid(65534); os.setuid(65534)
try:
    cancel_run(Path(sys.argv[1]))
except CenoteError as problem:
    sys.exit(str(problem))
"""
"""The command of another user."""
as_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can be another user")


@pytest.fixture
def place(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The user's own folder for sockets: short, as paths of sockets must be."""
    with tempfile.TemporaryDirectory(dir="/tmp") as folder:
        monkeypatch.setenv("XDG_RUNTIME_DIR", folder)
        yield Path(folder)


@pytest.fixture
def pulse(tmp_path: Path) -> Pulse:
    return Pulse(RunFolder(tmp_path), time.time)


@pytest.fixture
def run(tmp_path: Path) -> RunFolder:
    """A run that has begun."""
    folder = RunFolder(tmp_path / "run")
    folder.path.mkdir()
    write_record(folder.plan, PlanRecord.of(a_plan(partitions=4)))
    journal = Journal(folder.path)
    journal.write([RunStarted(at=1.0, run="r", tasks=5)])
    journal.close()
    return folder


def test_the_owner_is_answered_and_may_cancel(place: Path, pulse: Pulse) -> None:
    asked = Interruptions()
    with open_socket(pulse, asked, time.time) as path:
        assert path.is_relative_to(place)
        assert path.parent.stat().st_mode & 0o777 == 0o700
        assert ask(path, "answer").interruptions == 0
        assert ask(path, "cancel").interruptions == 1
        assert ask(path, "cancel").interruptions == 2
    assert asked.numbers == [signal.SIGINT, signal.SIGINT]
    assert not path.parent.exists()
    with pytest.raises(DriverSilentError):
        ask(path, "answer")


@pytest.mark.parametrize("raising", [False, True])
def test_to_cancel_is_to_press_ctrl_c(pulse: Pulse, raising: bool) -> None:
    """Also where the driver works on something that it may leave at once, such as a picture."""
    interrupted = False
    with signals.noted() as received, open_socket(pulse, received, time.time) as path:
        cancel = threading.Thread(target=lambda: ask(path, "cancel"))
        try:
            with signals.raised() if raising else signals.noted():
                cancel.start()
                while not received.count:
                    time.sleep(0.01)
        except signals.Interrupted:
            interrupted = True
        cancel.join()
    assert (received.numbers, interrupted) == ([signal.SIGINT], raising)


@pytest.mark.parametrize(
    "line", [b"", b"\n", b"{}\n", b'{"verb":"run"}\n', b"\xff\xfe\n", b"x" * 100_000, b'{"verb":"cancel"}']
)
def test_what_is_no_request_is_dropped_and_the_next_is_answered(pulse: Pulse, line: bytes) -> None:
    asked = Interruptions()
    with open_socket(pulse, asked, time.time) as path:
        with socket.socket(socket.AF_UNIX) as other:
            other.settimeout(30)
            other.connect(str(path))
            try:
                other.sendall(line)
                other.shutdown(socket.SHUT_WR)
                assert other.recv(100) == b""
            except (ConnectionResetError, BrokenPipeError):
                pass
        assert ask(path, "answer").interruptions == 0


@pytest.fixture
def public(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder for temporary files that every user may enter, as /tmp is."""
    with tempfile.TemporaryDirectory(dir="/tmp") as folder:
        Path(folder).chmod(0o1777)
        monkeypatch.delenv("XDG_RUNTIME_DIR", raising=False)
        monkeypatch.setattr(tempfile, "tempdir", folder)
        yield Path(folder)


def as_stranger(path: Path) -> list[str]:
    told = subprocess.run([sys.executable, "-c", STRANGER, path], capture_output=True, text=True, check=True, cwd="/")
    return told.stdout.split("\n")[:-1]


@as_root
@pytest.mark.usefixtures("public")
def test_a_stranger_cannot_open_it(pulse: Pulse) -> None:
    asked = Interruptions()
    with open_socket(pulse, asked, time.time) as path:
        assert as_stranger(path) == ["hidden", "refused"]
    assert asked.count == 0


@as_root
@pytest.mark.usefixtures("public")
def test_a_stranger_who_could_open_it_is_not_heard(pulse: Pulse) -> None:
    asked = Interruptions()
    with open_socket(pulse, asked, time.time) as path:
        path.parent.chmod(0o777)
        path.chmod(0o777)
        assert as_stranger(path) == ["hung up"]
    assert asked.count == 0


@as_root
def test_a_stranger_who_cancels_is_refused(public: Path, pulse: Pulse, run: RunFolder) -> None:
    shutil.copytree(run.path, public / "run")
    folder, asked = RunFolder(public / "run"), Interruptions()
    command = [sys.executable, "-c", CANCELLING_STRANGER, str(folder.path)]
    with folder.lock() as lock, open_socket(pulse, asked, time.time) as path:
        name_socket(lock, path)
        done = subprocess.run(
            command, capture_output=True, text=True, check=False, cwd="/", env={"HOME": "/nonexistent"}
        )
    assert done.returncode == 1, done.stderr
    assert "belongs to another user" in done.stderr
    assert asked.count == 0


@as_root
@pytest.mark.usefixtures("public")
def test_a_stranger_is_refused_in_words_and_does_not_speak_to_a_planted_socket(
    pulse: Pulse, run: RunFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = Interruptions()
    with run.lock() as lock, open_socket(pulse, asked, time.time) as path:
        name_socket(lock, path)
        monkeypatch.setattr(os, "geteuid", lambda: NOBODY)  # the socket is root's
        with pytest.raises(ForeignDriverError):
            ask(path, "cancel")
        with pytest.raises(CenoteError, match="belongs to another user"):
            cancel_run(run.path)
    assert asked.count == 0


@pytest.mark.usefixtures("place")
def test_a_driver_that_answers_is_running(run: RunFolder) -> None:
    with run.lock() as lock, open_socket(Pulse(run, time.time), Interruptions(), time.time) as path:
        name_socket(lock, path)
        followed = FollowedRun(run.path)
        followed.catch_up_to_now()
        assert (followed.status, followed.silence) == ("running", None)


@pytest.mark.usefixtures("place")
def test_a_driver_that_is_stopped_or_hangs_is_not_said_to_run(run: RunFolder) -> None:
    followed = FollowedRun(run.path)
    with run.lock() as lock:
        hung = Pulse(run, lambda: time.time() - 2 * STALLED_SECONDS)
        with open_socket(hung, Interruptions(), time.time) as path:
            name_socket(lock, path)
            followed.catch_up_to_now()
            assert followed.status == "unresponsive"
            assert f"process {os.getpid()}" in str(followed.silence)
        with socket.socket(socket.AF_UNIX) as deaf, tempfile.TemporaryDirectory(dir="/tmp") as folder:
            deaf.bind(f"{folder}/driver")
            (run.path / LOCK).write_text(f"{os.getpid()} on {socket.gethostname()}\n{folder}/driver\n")
            followed.catch_up_to_now()
            assert followed.status == "unresponsive"
        followed.catch_up_to_now()  # its socket is out of sight: its pulse tells
        assert (followed.status, followed.silence) == ("running", None)
        os.utime(run.path / LOCK, (1, 1))
        followed.catch_up_to_now()
        assert followed.status == "unresponsive"
    followed.catch_up_to_now()
    assert (followed.status, followed.silence) == ("interrupted", None)


@pytest.mark.usefixtures("place")
def test_what_killed_drivers_left_goes_with_the_next_run(pulse: Pulse) -> None:
    killed = (
        "import os, time\nfrom pathlib import Path\nfrom cenote.execution.runs.driver.socket import open_socket\n"
        "from cenote.execution.runs.folder import Pulse, RunFolder\nfrom cenote.common.signals import Interruptions\n"
        "with open_socket(Pulse(RunFolder(Path('.')), time.time), Interruptions(), time.time) as path:\n"
        "    print(path, flush=True)\n    os.kill(os.getpid(), 9)\n"
    )
    dead = Path(subprocess.run([sys.executable, "-c", killed], capture_output=True, text=True).stdout.strip())
    assert dead.exists()
    with open_socket(pulse, Interruptions(), time.time) as living:
        assert dead.exists(), "it may be another's who begins just now"
        for path in (dead, living):
            os.utime(path.parent, (1, 1))
        with open_socket(pulse, Interruptions(), time.time):
            assert not dead.parent.exists()
            assert living.exists()


@pytest.mark.parametrize("case", ["too long", "unwritable"])
def test_a_run_without_a_socket_runs_and_says_so(
    case: str, tmp_path: Path, pulse: Pulse, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / ("x" * 120 if case == "too long" else "none")
    if case == "too long":
        folder.mkdir()
    monkeypatch.delenv("XDG_RUNTIME_DIR", raising=False)
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    with pytest.raises(OSError, match=r"too long|No such file"), open_socket(pulse, Interruptions(), time.time):
        pass


@pytest.mark.parametrize("mode", [0o755, 0o1777])
def test_a_runtime_folder_that_others_may_enter_is_not_used(
    mode: int, place: Path, pulse: Pulse, monkeypatch: pytest.MonkeyPatch, public: Path
) -> None:
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(place))
    place.chmod(mode)
    with open_socket(pulse, Interruptions(), time.time) as path:
        assert path.is_relative_to(public)


def test_the_lock_names_the_socket_whatever_its_path(run: RunFolder, tmp_path: Path) -> None:
    with run.lock() as lock:
        name_socket(lock, tmp_path / "a\nb" / "driver")
        owner = lock_owner(run.path)
    assert owner is not None
    assert (owner.process, owner.is_here, owner.socket) == (os.getpid(), True, tmp_path / "a\nb" / "driver")
    (run.path / LOCK).write_text("nonsense")
    assert lock_owner(run.path) is None
