"""Print the completion script for a shell."""

from __future__ import annotations

import click
from click.shell_completion import get_completion_class

from cenote.common.errors import USAGE, error

SET_UP = {
    "bash": "echo 'eval \"$(cenote completion bash)\"' >> ~/.bashrc",
    "zsh": "echo 'eval \"$(cenote completion zsh)\"' >> ~/.zshrc",
    "fish": "cenote completion fish > ~/.config/fish/completions/cenote.fish",
}


@click.command(
    "completion", epilog="\b\nTo enable it permanently:\n" + "\n".join(f"  {line}" for line in SET_UP.values())
)
@click.argument("shell", type=click.Choice(list(SET_UP)))
def command(shell: str) -> None:
    """Print the completion script for a shell."""
    from cenote.cli.main import cli

    completion = get_completion_class(shell)
    if completion is None:
        raise error(USAGE, f"this version of click cannot complete in {shell}")
    click.echo(without_space_behind_keys(completion(cli, {}, "cenote", "_CENOTE_COMPLETE").source()))


def without_space_behind_keys(script: str) -> str:
    """bash: a value follows `key=`, and another key `key.`; a space between them would be wrong."""
    added = "COMPREPLY+=($value)"
    return script.replace(added, f"{added}\n            [[ $value == *[=.] ]] && compopt -o nospace")
