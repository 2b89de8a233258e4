"""What the file of a service says of pools and rules, and what is said about its mistakes."""

import json
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from cenote.common.errors import CenoteError
from cenote.language.execution import Amounts, Pool
from cenote.language.schema.service import OTHERS, Budget, PoolRules, ScalingPeriod, ShareRules
from cenote.service.client.definitions import PoolDefinition
from cenote.service.client.records import NewPool
from cenote.service.server.profiles import Profiles, settings_of_pool

FILE = """
pool_profiles:
  big: {strategy: local, resources: {cpus: 4, gpus: 1}, cost: 2.5, elastic: {min: 0, max: 4}}
execution:
  defaults: {cpu: default, gpu: gpu}
  pools:
    default: {workers: 2, strategy: local, queue_timeout: 1h, cost: 1}
    gpu: {use: big, fallback: default, fallback_when: {no_worker_for: 10m}}
service:
  timezone: Europe/Zurich
  shares:
    users: {ada: 2, bob: 1}
    groups: {atlas: 3}
  most_slots: {ada: 8, others: 4}
  budgets: {others: {amount: 50, per: month}}
  pools:
    gpu:
      scheduling: fair_share
      most_slots: {others: 2}
      budget: {amount: 100, per: week}
      periods:
        - {days: mon-fri, from: "08:00", to: "18:00", min: 2, max: 10}
        - {days: [sat, sun], from: "00:00", to: "24:00", max: 20}
    big: {preemption: false}
"""


@pytest.fixture(autouse=True)
def _no_site(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CENOTE_SITE", "none")


def profiles(tmp_path: Path, text: str = FILE) -> Profiles:
    (tmp_path / "pools.yaml").write_text(text)
    return Profiles(tmp_path / "pools.yaml")


def problems(tmp_path: Path, text: str) -> str:
    with pytest.raises(CenoteError) as raised:
        profiles(tmp_path, text)
    return str(raised.value).replace(f"{tmp_path}/", "")


def test_all_rules_are_read(tmp_path: Path) -> None:
    rules = profiles(tmp_path).rules
    assert (rules.shares.users, rules.shares.groups) == ({"ada": 2, "bob": 1}, {"atlas": 3})
    assert (rules.most_slots, rules.timezone) == ({"ada": 8, OTHERS: 4}, "Europe/Zurich")
    assert rules.budgets == {OTHERS: Budget(amount=50, per="month")}
    assert rules.pools["big"] == PoolRules(preemption=False)
    assert rules.pools["gpu"] == PoolRules(
        scheduling="fair_share",
        most_slots={OTHERS: 2},
        budget=Budget(amount=100, per="week"),
        periods=(
            ScalingPeriod(days=(0, 1, 2, 3, 4), begins=480, ends=1080, min=2, max=10),
            ScalingPeriod(days=(5, 6), begins=0, ends=1440, min=0, max=20),
        ),
    )


def test_rules_are_the_same_after_they_were_in_the_log(tmp_path: Path) -> None:
    rules = profiles(tmp_path).rules
    assert msgspec.json.decode(msgspec.json.encode(rules), type=ShareRules) == rules


def test_pools_have_their_terms(tmp_path: Path) -> None:
    default, gpu = profiles(tmp_path).pools
    assert (default.queue_timeout, default.cost) == (3600, 1)
    assert (gpu.fallback, gpu.no_worker_for, gpu.cost) == (("default",), 600, 2.5)


def test_a_file_without_rules_has_the_usual_ones(tmp_path: Path) -> None:
    assert profiles(tmp_path, "execution: {pools: {default: {workers: 1}}}").rules.pools == {}


@pytest.mark.parametrize(
    ("before", "after", "message"),
    [
        ("fair_share", "fairshare", "pools.yaml:18:19: 'pools.gpu.scheduling' of 'service': should be 'priority' or"),
        ("timezone: Europe/Zurich", "timezone: Zürich", "pools.yaml:10:13: there is no time zone 'Zürich'"),
        ("budget: {amount: 100", "budget: {amuont: 100", "did you mean 'amount'?"),
        ("budget: {amount: 100", "budget: {amount: -1", "should be more than 0, not -1"),
        ("days: mon-fri", "days: mon-fry", "pools.yaml:22:18: 'pools.gpu.periods.0.days' of 'service': should be days"),
        ('to: "18:00"', 'to: "25:00"', "should be a time from 00:00 to 24:00, not '25:00'"),
        ("min: 2, max: 10", "min: 20, max: 10", "min (20) should not be more than max (10)"),
        ("    big: {preemption", "    bigg: {preemption", "there is no pool or pool profile 'bigg', which has rules"),
        ("cost: 2.5, ", "", "pools.yaml:20:15: pool 'gpu' has a budget and no cost"),
        ("elastic: {min: 0, max: 4}", "workers: 4", "pool 'gpu' has periods and a fixed size"),
        (
            "scheduling: fair_share",
            "scheduling: fair_share\n      preemption: true",
            "`preemption` is for `scheduling:",
        ),
        ("ada: 8", "ada: -8", "should be at least 0, not -8"),
        ("service:", "servcie:", "there is no key 'servcie' in the file of a service"),
        ("gpu: gpu}", "gpu: gppu}", "there is no pool 'gppu', named as the default pool"),
    ],
)
def test_mistakes_are_said_with_lines_and_nearest_names(tmp_path: Path, before: str, after: str, message: str) -> None:
    assert before in FILE
    assert message in problems(tmp_path, FILE.replace(before, after, 1))


Made = Callable[[Path, dict[str, object]], PoolDefinition]
PLAIN = {"strategy": "slurm", "workers": 1}
SETTINGS: dict[str, dict[str, object]] = {
    "workers": {"workers": 2},
    "elastic": {"workers": None, "elastic": {"max": 3}},
    "slots": {"slots": 2},
    "resources": {"resources": {"cpus": 4}},
    "resource_class": {"resources": {"class": "large"}},
    "cost": {"cost": 2},
    "strategy": {"strategy": "local"},
    "config": {"config": {"walltime": "2h"}},
    "environment": {"environment": {"type": "shared-prefix", "prefix": "/opt/software"}},
    "credentials": {"credentials": "x509"},
    "pass_variables": {"pass_variables": "CALIBRATION"},
    "provides": {"provides": "fast"},
    "fallback": {"fallback": "other"},
    "fallback_when.no_worker_for": {"fallback_when": {"no_worker_for": "1m"}},
    "fallback_when.preempted": {"fallback_when": {"preempted": 2}},
    "fallback_when.oom": {"fallback_when": {"oom": True}},
    "queue_timeout": {"queue_timeout": "1h"},
}
"""What a pool of a run can be told; a profile of pools as well."""


REFUSED = ("credentials", "provides", "fallback_when.preempted", "fallback_when.oom")


def pool_of_the_file(tmp_path: Path, more: dict[str, object]) -> PoolDefinition:
    pools = {"cpu": {**PLAIN, **more}, "other": PLAIN}
    execution = {"resources": {"large": {"cpus": 8}}, "pools": pools}
    return profiles(tmp_path, json.dumps({"execution": execution})).pools[0]


def pool_of_a_profile(tmp_path: Path, more: dict[str, object]) -> PoolDefinition:
    execution = {"resources": {"large": {"cpus": 8}}, "pools": {"other": PLAIN}}
    file = profiles(tmp_path, json.dumps({"execution": execution, "pool_profiles": {"big": {**PLAIN, **more}}}))
    return file.pool("cpu", NewPool(name="cpu", profile="big"), "ada")


@pytest.mark.parametrize("made", [pool_of_the_file, pool_of_a_profile])
@pytest.mark.parametrize("setting", sorted(settings_of_pool(Pool("cpu")).keys() - {"name", *REFUSED}))
def test_every_setting_of_a_pool_is_obeyed(tmp_path: Path, setting: str, made: Made) -> None:
    assert made(tmp_path, SETTINGS[setting]) != made(tmp_path, {})


@pytest.mark.parametrize("made", [pool_of_the_file, pool_of_a_profile])
@pytest.mark.parametrize("setting", REFUSED)
def test_settings_of_pools_that_a_service_does_not_support_are_refused(
    tmp_path: Path, setting: str, made: Made
) -> None:
    with pytest.raises(CenoteError, match=f"pool 'cpu' has `{setting}`, which services do not support"):
        made(tmp_path, SETTINGS[setting])


def a_pool(name: str, gpus: int | None = None) -> PoolDefinition:
    return PoolDefinition(name=name, workers=1, resources=Amounts(gpus=gpus))


def test_default_pools_are_for_cpu_and_for_gpu_work(tmp_path: Path) -> None:
    file, both = profiles(tmp_path), [a_pool("default"), a_pool("gpu", 1), a_pool("other", 1)]
    assert (file.default_pool(both), file.default_pool(both, gpus=True)) == ("default", "gpu")
    without = Profiles(None)
    assert without.default_pool(both[:2], gpus=True) == "gpu"
    assert without.default_pool([a_pool("only")]) == "only"
    with pytest.raises(CenoteError, match="asks for GPUs, names no pool") as raised:
        without.default_pool(both, gpus=True)
    assert raised.value.problems[0].hint == "pools with GPUs: gpu, other"
    with pytest.raises(CenoteError, match="names no pool, and there is no default one"):
        without.default_pool([a_pool("a"), a_pool("b")])


def test_the_example_of_the_docs_is_right(tmp_path: Path) -> None:
    page = Path(__file__).parents[2].joinpath("docs/how-to/queue-rules.md").read_text(encoding="utf-8")
    found = profiles(tmp_path, page.partition("```yaml\n")[2].partition("```")[0])
    assert [pool.name for pool in found.pools] == ["default", "gpu_spot", "gpu"]
    assert len(found.rules.pools["gpu"].periods) == 2


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (b"execution:\n  pools: [\n", "pools.yaml:3:1"),
        (b"\xff\xfe\x00", "is not a text file"),
        (b"- a\n- b\n", "must contain keys with values"),
        (None, "pools.yaml"),
    ],
)
def test_a_file_that_is_no_yaml_or_not_there_is_a_mistake_and_no_fault(
    tmp_path: Path, text: bytes | None, words: str
) -> None:
    file = tmp_path / "pools.yaml"
    if text is not None:
        file.write_bytes(text)
    with pytest.raises(CenoteError) as raised:
        Profiles(file)
    assert words in str(raised.value)
