"""Play the schedule of a seed: users, nodes and kills at random, then calm, until every task has ended."""

from __future__ import annotations

from dataclasses import dataclass
from random import Random

from allocation.agents import Agent, require
from allocation.requests import a_random_request, calm_requests, first_requests
from allocation.whole import check_counts, check_reasons, check_replay
from allocation.world import World
from cenote.service.allocator.messages import InstancePreempted
from cenote.service.client.definitions import TaskState

_ROUNDS = 400
"""Of calm, after which every task must have ended."""


@dataclass(frozen=True)
class Schedule:
    """How one seed went."""

    events: int
    restarts: int
    ended: dict[str, TaskState]
    timed_out: int
    """Tasks that waited for too long."""
    stopped: int
    """Instances that a budget stopped."""


class ScheduleError(Exception):
    """A rule was broken; the message has the seed and the log."""


def play(seed: int) -> Schedule:
    """Play a seed; raises ScheduleError where a rule is broken."""
    random = Random(seed)
    world = World(random)
    try:
        for event in first_requests(world):
            world.say(event)
        for _ in range(random.randint(20, 80)):
            _trouble(world)
            check_counts(world.allocator)
            if random.random() < 0.05:
                check_replay(world.allocator, world.log)
                check_reasons(world.allocator)
        _calm_down(world)
    except Exception as error:
        lines = "\n".join(f"  {event}" for event in world.log[-60:])
        raise ScheduleError(f"seed {seed}: {error!r}; the log ends with\n{lines}") from error
    stopped = sum(isinstance(event, InstancePreempted) and bool(event.reason) for event in world.log)
    return Schedule(len(world.log), world.restarts, world.ended, len(world.timed_out), stopped)


def _trouble(world: World) -> None:
    random = world.random
    match random.randrange(12):
        case 0 | 1 | 2:
            world.say(a_random_request(world), killed=random.random() < 0.1)
        case 3 | 4 | 5:
            _work(world, random.choice((0.2, 0.6)))
        case 6 | 7:
            _arrive(world)
        case 8:
            _harm(world)
        case 9:
            world.pass_time(random.choice((0.1, 1.0, 20.0, 90.0, 600.0)))
        case _:
            while world.inbox and random.random() < 0.9:
                world.say(world.inbox.popleft(), killed=random.random() < 0.03)


def _harm(world: World) -> None:
    random = world.random
    agents = [*world.nodes.alive.values()]
    if not agents or random.random() < 0.1:
        world.restart()
        return
    agent = random.choice(agents)
    if random.random() < 0.4:
        cause = random.choice(("died", "crashed", "preempted", "walltime", "oom"))
        world.kill(agent.name, agent.pool, cause)
    elif agent.connected:
        world.disconnect(agent)


def _arrive(world: World) -> None:
    """Jobs start, or are refused; workers that were cut off come back."""
    random = world.random
    away = [agent for agent in world.nodes.alive.values() if not agent.connected]
    for agent in [*world.coming.values(), *away]:
        if random.random() < 0.5:
            world.join(agent)
        elif not agent.joined and random.random() < 0.05:
            world.kill(agent.name, agent.pool, random.choice(("refused", "died")))


def _work(world: World, share: float) -> None:
    for agent in list(world.nodes.alive.values()):
        for attempt in sorted(agent.running):
            if world.random.random() < share and agent.name in world.nodes.alive:
                _end(world, agent, attempt.task)


def _end(world: World, agent: Agent, task: str) -> None:
    """By the kind of its task, which is in its name: some fail, and some kill their workers."""
    attempt = min(one for one in agent.running if one.task == task)
    roll = world.random.random()
    if "killer" in task:
        world.kill(agent.name, agent.pool, "died")
    elif "bad" in task or ("flaky" in task and roll < 0.4):
        world.finish(agent, attempt, code=1 if roll < 0.8 else None, cause="exit" if roll < 0.8 else "timeout")
    else:
        world.finish(agent, attempt, code=0)


def _calm_down(world: World) -> None:
    """From now on all goes well: every task that can run must end."""
    if world.random.random() < 0.5:
        world.restart()
    for turn in range(_ROUNDS):
        world.hear()
        for event in calm_requests(world, first=turn % 20 == 0):
            world.say(event)
        for agent in [*world.coming.values(), *(a for a in world.nodes.alive.values() if not a.connected)]:
            world.join(agent)
        _work(world, 1.0)
        world.pass_time(35.0)
        world.hear()
        check_counts(world.allocator)
        if set(world.tasks) <= set(world.ended) and not world.allocator.tasks():
            break
    check_reasons(world.allocator)
    check_replay(world.allocator, world.log)
    left = {name: world.allocator.why(name) for name in world.tasks if name not in world.ended}
    require(not left, f"these tasks never end: {left}")
    _check_endings(world)


def _check_endings(world: World) -> None:
    for name, state in world.ended.items():
        done = sum(task == name for task, _ in world.nodes.acknowledged)
        if state is TaskState.SUCCESS:
            require(done == world.tasks[name].instances, f"task {name} is a success with {done} instances done")
        elif state is TaskState.FAILURE and "good" in name:
            reasons = world.given_up.get(name, [])
            unlucky = bool(reasons) and all(reason.startswith("kills its worker") for reason in reasons)
            late = name in world.timed_out
            sent_away = not world.tasks[name].requeue and not any("exit code" in reason for reason in reasons)
            excused = unlucky or late or sent_away or bool(world.tasks[name].after)
            require(excused, f"task {name} failed, though nothing is wrong with it")
