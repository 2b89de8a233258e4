"""A private service stays for as long as a run leases from it, and pools that it made by itself do not keep it."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

from cenote.service.client.connection import connect
from cenote.service.client.home import ServiceHome
from cenote.service.client.records import NewPool, NewTask
from cenote.service.client.start import answering

_SERVE = """
import sys
from pathlib import Path
from cenote.service.server.serve import ServeOptions, serve
serve(ServeOptions(home=Path(sys.argv[1]), private=True, idle_seconds=5))
"""
_PATIENCE = 120.0


def test_it_ends_after_the_last_lease_although_its_pool_is_there(tmp_path: Path) -> None:
    home = ServiceHome(tmp_path / "home")
    end = tmp_path / "end"
    with subprocess.Popen([sys.executable, "-c", _SERVE, str(home.path)]) as service:
        try:
            while answering(home) is None:
                assert service.poll() is None, "it must not end before anybody asked for something"
                time.sleep(0.01)
            with connect(home.path) as connection:
                pool = connection.add_pool(NewPool(name="made", workers=1, on_demand=True)).name
                waits = f"while [ ! -e {end} ]; do sleep 0.05; done"
                lease = connection.add_task(NewTask(name="lease", pool=pool, command=waits))
                while connection.task(lease.id).state != "FullyExecuting":
                    time.sleep(0.05)
                time.sleep(6.0)  # longer than it would wait for work
                assert service.poll() is None
                end.touch()
            assert service.wait(_PATIENCE) == 0
        finally:
            service.kill()
