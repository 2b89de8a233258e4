"""Packages bring activation scripts, written for bash: they work in every shell that starts a worker."""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path

import pytest

from cenote.common.shell import run_command
from cenote.execution.packing.prefixes.pack import activation_of

COMPILER = """
function tool {  # a plain `sh` cannot read this
    local -a parts=("$CONDA_PREFIX" bin)
    export TOOL="${parts[0]}/${parts[1]}" ODD="it's \\"\\$HOME\\" & \\\\
and more"
}
tool
echo "found a tool"
"""


@pytest.fixture
def prefix(tmp_path: Path) -> Path:
    scripts = tmp_path / "prefix" / "etc" / "conda" / "activate.d"
    scripts.mkdir(parents=True)
    (tmp_path / "prefix" / "conda-meta").mkdir()
    (scripts / "a_compiler.sh").write_text(COMPILER)
    (scripts / "b_plain.sh").write_text('export DATA="${CONDA_PREFIX}/share"\n')
    return tmp_path / "prefix"


def activated(prefix: Path, shell: str, *, path: str) -> tuple[dict[str, str], str]:
    """The variables after the activation, and what was said."""
    show = f"{sys.executable} -c 'import json, os; print(json.dumps(dict(os.environ)))'"
    text = f"CENOTE_HERE={prefix}\n{activation_of(prefix, (), ())}{show}"
    done = run_command(["env", "-i", f"PATH={path}", "KEPT=a'b", shell, "-c", text], seconds=60)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout), done.stderr


@pytest.mark.parametrize("shell", ["dash", "bash"])
def test_scripts_for_bash_work_in_every_shell(prefix: Path, shell: str) -> None:
    program = shutil.which(shell) or pytest.skip(f"there is no {shell} here")
    found, said = activated(prefix, program, path="/usr/bin:/bin")
    assert found["TOOL"] == f"{prefix}/bin"
    assert found["DATA"] == f"{prefix}/share"
    assert found["ODD"] == 'it\'s "$HOME" & \\\nand more'
    assert found["KEPT"] == "a'b"
    assert said == "found a tool\n"


def test_without_bash_the_others_still_work(prefix: Path) -> None:
    program = shutil.which("dash") or pytest.skip("there is no dash here")
    found, said = activated(prefix, program, path="/nowhere")
    assert found["DATA"] == f"{prefix}/share"
    assert "TOOL" not in found
    assert said == "cenote: a_compiler.sh was left out of the activation: it needs bash\n"


def test_variables_of_packages_and_of_the_user_are_set_with_the_folder_on_the_node(prefix: Path) -> None:
    packages = prefix / "etc" / "conda" / "env_vars.d"
    packages.mkdir()
    (packages / "a.json").write_text(json.dumps({"DATA_OF_A": f"{prefix}/share:it's", "SAME": "of the package"}))
    own = {"env_vars": {"SAME": "of the user", "GONE": "***unset***", "not a name": "x"}}
    (prefix / "conda-meta" / "state").write_text(json.dumps(own))
    text = f"CENOTE_HERE='/on the node'\n{activation_of(prefix, (str(prefix),), ())}"
    shown = run_command(["sh", "-c", f'{text} echo "$DATA_OF_A $SAME ${{GONE-unset}}"'], seconds=60).stdout
    assert shown.strip() == "/on the node/share:it's of the user unset"
