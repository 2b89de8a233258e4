"""Show your proxies and tokens: whose, for how long, what is wrong."""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING

import click

from cenote.cli.options import JSON_OPTION, Choices, optional_workflow_choices
from cenote.common.errors import CenoteError

if TYPE_CHECKING:  # what `cenote credentials --help` must not pay for
    from cenote.cli.views.tables.credentials import SeenCredential


@click.command("credentials")
@optional_workflow_choices
@JSON_OPTION
def command(choices: Choices | None, *, as_json: bool) -> int:
    """Show the credentials that a workflow names, and the pools that get them; without FILE, those in the usual places.

    It prints subject, issuer, time left, VOMS attributes, audience, scope and problems, never the contents. Problems
    set the exit code; without FILE, a missing credential is no problem.
    """
    from cenote.cli.console import output
    from cenote.cli.streams import user_code_aside
    from cenote.cli.views.tables.credentials import credentials_as_json, show_credentials

    now = time.time()
    with user_code_aside():
        seen = _in_usual_places(now) if choices is None else _named_by(choices, now)
    problems = [problem for one in seen for problem in one.wrong]
    if as_json:
        told = {"ok": not problems, "credentials": credentials_as_json(seen, now=now)}
        click.echo(json.dumps(told, indent=2, ensure_ascii=False))
    else:
        show_credentials(seen, output(), now=now)
    return CenoteError(problems).exit_code if problems else 0


def _named_by(choices: Choices, now: float) -> list[SeenCredential]:
    from cenote.cli.views.tables.credentials import SeenCredential
    from cenote.execution.runs.credentials import RunCredentials

    workflow = choices.load().workflow
    named = RunCredentials(workflow)
    found = []
    for one in named.all:
        pools = tuple(pool.name for pool in workflow.execution.pools if one in named.of(pool.name))
        problems = tuple(one.check(now))
        if pools and one.variables():
            found.append(SeenCredential(one.type, one.facts(), problems, pools, renews=one.credential.renews))
    return found


def _in_usual_places(now: float) -> list[SeenCredential]:
    from cenote.cli.views.tables.credentials import SeenCredential
    from cenote.execution.runs.credentials import NamedCredential
    from cenote.language.plugins import registry
    from cenote.language.plugins.kinds import PluginKind

    found = []
    for name in registry.names(PluginKind.CREDENTIAL):
        try:
            one = NamedCredential(name, registry.make(PluginKind.CREDENTIAL, name, {}), None)
        except registry.BadSettingsError:  # it has no usual place
            continue
        if one.variables():
            problems = tuple(one.check(now))
            found.append(SeenCredential(name, one.facts(), problems))
    return found
