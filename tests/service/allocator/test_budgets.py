"""Stories of budgets: what counts, what is asked for no more, what ends in time, and what is said about it."""

import pytest

from builders.service import ServiceStory, a_service_pool, a_task, an_elastic_size, decided, started, stopped
from cenote.engine.messages import EndWorkers, StartWorkers
from cenote.language.schema.service import Budget, BudgetSpan, PoolRules, ShareRules
from cenote.service.allocator.messages import CalendarTurned, RulesChanged, ServiceCommand, WorkersSentAway
from cenote.service.allocator.snapshot import Span

AN_HOUR = 3600.0


def a_story(
    *, pool: float | None = None, user: float | None = None, per: BudgetSpan = "total", most: int = 4
) -> ServiceStory:
    """A pool that costs 1 per worker and hour; amounts are budgets."""
    story = ServiceStory()
    rules = ShareRules(
        budgets={} if user is None else {"ada": Budget(amount=user, per=per)},
        pools={"cpu": PoolRules(budget=None if pool is None else Budget(amount=pool, per=per))},
    )
    story.after(RulesChanged(at=story.now, rules=rules))
    story.add_pool(a_service_pool(elastic=an_elastic_size(most=most), cost=1.0))
    return story


def asked(commands: list[ServiceCommand]) -> int:
    return sum(command.count for command in commands if isinstance(command, StartWorkers))


def submit(story: ServiceStory, instances: int = 20, **more: object) -> list[ServiceCommand]:
    """A task, and the workers that are asked for come."""
    story.add_task(a_task("one", instances, **more))
    return story.obey(story.later(1))


def ends(commands: list[ServiceCommand]) -> bool:
    return any(isinstance(command, EndWorkers) for command in commands)


def pass_time(story: ServiceStory, seconds: float) -> list[ServiceCommand]:
    """In steps as small as a service's looks at its clock need not even be."""
    found: list[ServiceCommand] = []
    for _ in range(int(seconds // 30)):
        found += story.obey(story.later(30))
    return found


def test_no_more_workers_are_asked_for_than_the_budget_pays_for_a_while() -> None:
    story = a_story(pool=0.5)
    assert asked(submit(story)) == 2  # 11 minutes of each, and a third costs 0.55

    assert "budget of pool 'cpu': 0 of 0.5 used" in story.allocator.why("one")


def test_workers_are_sent_away_in_time_and_ended_before_the_budget_is_passed() -> None:
    story = a_story(pool=1.0, most=1)
    submit(story)
    begun = story.now
    sent: float | None = None
    while not ends(commands := story.later(5)):
        sent = story.now if decided(commands, WorkersSentAway) else sent
        assert story.now - begun < AN_HOUR
    assert sent is not None
    assert sent - begun == pytest.approx(AN_HOUR - 360, abs=10)
    assert story.now - begun == pytest.approx(AN_HOUR - 60, abs=10)
    assert story.allocator.why("one")[0].startswith("pool 'cpu': budget of pool 'cpu': 0.98")

    story.lose("cpu-1", cause="silent")
    assert story.allocator.pools()[0].waiting == 20
    assert asked(pass_time(story, 3600)) == 0


def test_a_new_week_brings_a_new_budget() -> None:
    story = a_story(pool=1.0, per="week", most=1)
    story.after(CalendarTurned(at=story.now, spans={"week": Span(story.now, "Monday 00:00")}))
    submit(story)
    pass_time(story, AN_HOUR - 90)
    story.lose("cpu-1", cause="retired")
    assert story.allocator.why("one") == ["pool 'cpu': budget of pool 'cpu': 0.975 of 1 used; more on Monday 00:00"]

    turned = story.after(CalendarTurned(at=story.now, spans={"week": Span(story.now, "Monday 00:00")}))
    assert asked(turned) == 1


def test_what_runs_when_the_week_turns_costs_the_new_week() -> None:
    story = a_story(pool=1.0, per="week", most=1)
    submit(story)
    pass_time(story, 1800)
    story.after(CalendarTurned(at=story.now, spans={"week": Span(story.now, "Monday 00:00")}))
    assert not ends(pass_time(story, 3000))
    assert ends(pass_time(story, 600))


def test_a_budget_of_a_profile_is_for_all_its_pools_together() -> None:
    story = ServiceStory()
    rules = ShareRules(pools={"big": PoolRules(budget=Budget(amount=0.5))})
    story.after(RulesChanged(at=story.now, rules=rules))
    found = [asked(story.add_pool(a_service_pool(name, workers=2, cost=1.0, profile="big"))) for name in ("one", "two")]
    assert found == [2, 0]
    assert "budget of all pools of profile 'big'" in story.allocator.pools()[1].why


def test_a_time_limit_is_paid_for_when_an_instance_starts() -> None:
    story = a_story(user=1.0)
    assert len(started(submit(story, timeout=1130))) == 3  # 20 minutes each, with a minute to end
    assert story.allocator.why("one")[0] == "budget of user 'ada': 0 of 1 used"
    assert stopped(pass_time(story, 1140)) == []

    story.now += 6
    assert len(started([*story.end("one", 0), *story.end("one", 1)])) == 0
    assert story.allocator.why("one")[0].startswith("budget of user 'ada': 0.955 of 1 used")


def test_instances_without_a_time_limit_are_stopped_before_the_budget_is_passed() -> None:
    story = a_story(user=1.0, most=2)
    submit(story)
    begun = story.now
    while not (commands := stopped(story.later(5))):
        assert story.now - begun < AN_HOUR / 2
    assert commands == [("one", 1)]
    assert "budget of user 'ada'" in story.stopped[-1].reason
    other = story.add_task(a_task("other", user="bob"))
    assert started([*other, *story.end("one", 1, code=None, cause="stopped")]) == [("other", 0)]
    assert story.allocator.why("one")


def test_what_a_budget_could_never_pay_is_refused_at_once() -> None:
    story = a_story(user=1.0)
    refused = story.allocator.why_never(a_task("one", timeout=7200))
    assert refused == "the budget of user 'ada' is 1, and one instance takes 2.017 up to its time limit"
    assert story.allocator.why_never(a_task("two", timeout=1800)) is None
    poor = a_story(pool=0.1)
    assert "a worker takes 0.1834" in (poor.allocator.why_never(a_task("one")) or "")


def test_a_smaller_budget_takes_effect_at_once() -> None:
    story = a_story(user=10.0, most=2)
    submit(story)
    pass_time(story, 1800)
    smaller = ShareRules(budgets={"ada": Budget(amount=0.5)})
    assert len(stopped(story.after(RulesChanged(at=story.now, rules=smaller)))) == 2


def test_what_was_spent_survives_a_restart_and_compaction() -> None:
    story = a_story(pool=1.0, user=5.0, most=1)
    submit(story)
    pass_time(story, 1800)
    story.restart(list(story.allocator.compacted()))
    story.come_back("cpu-1")
    assert ends(pass_time(story, 1800))
