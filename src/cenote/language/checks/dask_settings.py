"""Take Dask's own settings under `execution.config`, as FAST-HEP has them, for what they mean here."""

from __future__ import annotations

from cenote.language.checks.findings import Findings
from cenote.language.yaml.source import Located

WITHOUT_MEANING = ("processes", "dashboard_address", "scheduler")
"""Settings of Dask's local cluster that change no result: workers are always processes, its pages are off."""
_OF_POOLS = {"n_workers": ("workers",), "workers": ("workers",), "threads_per_worker": ("slots",)}
"""Setting → the key of the pool `default` that means the same."""


def with_dask_settings(execution: Located, findings: Findings) -> Located:
    """The mapping `execution` with Dask's settings moved to where they belong; what is left out is said."""
    config = execution.get("config")
    if config is None or not isinstance(config.value, dict):
        return execution
    rest = dict(config.mapping)
    for key in [key for key in WITHOUT_MEANING if key in rest]:
        findings.accept(f"execution.config.{key}", ("execution", "config", key), matters=False)
        del rest[key]
    if (folder := rest.pop("local_directory", None)) is not None:
        rest.setdefault("scratch", folder)
    pool = {keys[0]: rest.pop(key) for key, keys in _OF_POOLS.items() if key in rest}
    if (memory := rest.pop("memory_limit", None)) is not None:
        pool["resources"] = memory.holding({"memory": memory})
    moved = {**execution.mapping, "config": config.holding(rest)}
    if pool:
        moved["pools"] = _with_pool(execution.get("pools"), config, pool)
    return execution.holding(moved)


def _with_pool(pools: Located | None, config: Located, given: dict[str, Located]) -> Located:
    """The pools, of which `default` has these keys where it does not say otherwise."""
    written = pools.mapping if pools is not None else {}
    default = written.get("default")
    if written and default is None:
        return pools or config.holding({})
    own = default.mapping if default is not None else {}
    merged = (default or config).holding({**given, **own})
    return (pools or config).holding({**written, "default": merged})
