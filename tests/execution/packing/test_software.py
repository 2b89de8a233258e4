"""The software in a prefix, as its installers recorded it."""

from __future__ import annotations

from pathlib import Path

import pytest

from builders.small_prefixes import small_conda_prefix
from builders.virtual_environments import make_venv
from cenote.execution.packing.software import software_of, this_platform


def test_conda_and_others_may_have_installed_packages(tmp_path: Path) -> None:
    prefix = small_conda_prefix(tmp_path / "prefix")
    packages = prefix / "lib" / "python3.12" / "site-packages"
    for name in ("My_Package-1.0", "python-3.12.1"):
        (packages / f"{name}.dist-info").mkdir(parents=True)
    (prefix / "lib64").symlink_to("lib")
    found = software_of(prefix)
    assert (found.python, found.platform) == ("3.12.1", "linux-64")
    assert found.packages == {"my-package": "1.0", "python": "3.12.1"}


@pytest.mark.parametrize(
    "line", ["version = 3.12.4", "version_info = 3.12.4.final.0\nversion = 20.1", "version_info = 3.12.4"]
)
def test_every_maker_of_virtual_environments_says_which_python_it_used(tmp_path: Path, line: str) -> None:
    make_venv(tmp_path)
    (tmp_path / "venv" / "pyvenv.cfg").write_text(f"home = /usr/bin\n{line}\n")
    found = software_of(tmp_path / "venv")
    assert (found.python, found.platform, found.packages) == ("3.12.4", this_platform(), {})
