"""Keep the tasks and bundles that were sent to Dask: on which worker they are, and what they left for others."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from distributed import Client, Future

from cenote.engine.messages import AnyEvent, FailureInfo, ResultLost, ResultNotNeeded, TaskFailed
from cenote.execution.backends.dask.launch import held
from cenote.execution.backends.dask.messages import TaskReport
from cenote.execution.backends.dask.run_bundle import pool_resource, run_bundle
from cenote.execution.backends.support.outcomes import STOPPED, Bundling, event_of, failed, key_of, started, withdrawn
from cenote.execution.worker.results.skim import bring_home
from cenote.execution.worker.results.store import Store, is_worth_waiting
from cenote.execution.worker.results.written_files import WrittenFiles
from cenote.execution.worker.task_spec import Outcome, RunSpec, TaskSpec
from cenote.language.execution import Amounts
from cenote.planning.placement.pools import PlacedPool
from cenote.planning.plan import Segment, WriteStep

# Keep tasks together that are one task for Dask.


@dataclass
class Bundle:
    """Tasks that are one task for Dask."""

    key: str
    pool: str
    specs: dict[int, TaskSpec]
    """By task; those that are cancelled are taken out."""
    future: Any
    """Its result, for as long as somebody waits for it."""
    worker: str | None = None
    """Who has begun it."""
    since: float = 0.0

    def __post_init__(self) -> None:
        self.segment, self.kind = key_of(next(iter(self.specs.values())))

    def slim(self) -> None:
        """Keep no more of the tasks than who they are: they are through, and many may wait for their readers."""
        self.specs = {task: replace(one, pieces=(), products=(), parts=()) for task, one in self.specs.items()}


class SentTasks:
    """Tasks go to Dask in bundles and come back with their worker's word; what has to be told comes out as events."""

    def __init__(
        self,
        client: Client,
        run_spec: RunSpec,
        *,
        pools: Mapping[str, PlacedPool],
        store: Store,
        now: Callable[[], float],
    ) -> None:
        self._client, self._pools, self._store, self._now = client, pools, store, now
        self._segments, self._files = run_spec.segments, run_spec.files
        self._written = WrittenFiles(store.folder)
        self._bundling = Bundling()
        self._waiting: dict[str, dict[int, TaskSpec]] = {}
        """Pool → tasks that are sent as soon as all news has been heard."""
        self._bundles: dict[str, Bundle] = {}
        """Key of a bundle that was sent and is not through → the bundle."""
        self._bundle_of: dict[int, Bundle] = {}
        """The same by task."""
        self._reports: dict[str, tuple[str, Sequence[TaskReport]]] = {}
        """Bundle → its worker, and what that reported. It counts once Dask has the result too."""
        self._futures: dict[str, Future] = {}
        """Name of a stored result → the future of the bundle that made it."""
        self._left: dict[str, Bundle] = {}
        """Key of a bundle that is through and left events for others, until Dask forgets it."""
        self._again: set[str] = set()
        """Of those, the ones that were lost and are being made again."""
        self._sent = 0

    # there

    def add(self, spec: TaskSpec, pool: str) -> None:
        """A task for a pool."""
        self._waiting.setdefault(pool, {})[spec.task] = spec

    def send(self, slots: Mapping[str, int]) -> None:
        """All that wait: two bundles for each slot, so that a worker finds the next one already there."""
        for pool, waiting in self._waiting.items():
            if waiting:
                out = sum(bundle.pool == pool for bundle in self._bundles.values())
                wanted = 2 * slots.get(pool, 0) - out
                for specs in self._bundling.bundles(list(waiting.values()), wanted):
                    self._send(specs, pool)
                waiting.clear()

    def _send(self, specs: tuple[TaskSpec, ...], pool: str) -> None:
        first, inline, upstream = specs[0], {}, {}
        for spec in specs:
            found, futures = self._inputs(spec)
            inline.update(found)
            upstream.update(dict.fromkeys(futures))
        segment = self._segments[first.segment]
        self._sent += 1
        key = f"{segment.stages[0]}-{first.kind}-{first.key}-{self._sent}"
        asked = segment.amounts if first.kind == "run" else Amounts()
        resources = {pool_resource(pool): 1, **held(asked, self._pools[pool].granted)}
        expected = self._bundling.expected(specs)
        future = self._client.submit(
            run_bundle, key, expected, specs, inline, *upstream, key=key, pure=False, resources=resources
        )
        bundle = Bundle(key, pool, {spec.task: spec for spec in specs}, future)
        self._bundles[key] = bundle
        self._bundle_of.update(dict.fromkeys(bundle.specs, bundle))

    def _inputs(self, spec: TaskSpec) -> tuple[dict[str, bytes], list[Future]]:
        """Products travel with the task; events come from the workers that hold them."""
        events = [name for piece in spec.pieces for _, names in piece.imports for name in names if name]
        stored = [*spec.parts, *(key for _, key in spec.products), *spec.given.values()]
        stored += [name for name in events if name not in self._futures]  # an earlier run on this machine left them
        inline = {name: bytes(self._store.read_packed(name)) for name in stored}
        return inline, [self._futures[name] for name in events if name in self._futures]

    def cancel(self, task: int) -> list[AnyEvent]:
        """Stop a task, wherever it is."""
        if (bundle := self._bundle_of.get(task)) is None:
            found = [(pool, waiting.pop(task)) for pool, waiting in self._waiting.items() if task in waiting]
            return [withdrawn(spec, at=self._now(), pool=pool) for pool, spec in found]
        spec = self._take_out(bundle, task)
        if bundle.worker is None:
            return [withdrawn(spec, at=self._now(), pool=bundle.pool)]
        return [self._failure(bundle, spec, STOPPED)]

    def take_back(self, keys: Sequence[str]) -> None:
        """Whichever of these nobody has begun is sent once more, for others."""
        for bundle in [self._bundles[key] for key in keys if key in self._bundles]:
            if bundle.worker is None:
                self._release(bundle)
                self._waiting.setdefault(bundle.pool, {}).update(bundle.specs)

    def forget(self, names: Sequence[str]) -> None:
        """Dask still knows how they were made, in case something made from them is lost."""
        for name in names:
            self._futures.pop(name, None)

    def close(self) -> None:
        """Let go of everything."""
        self._futures.clear()
        self._bundles.clear()
        self._bundle_of.clear()
        self._left.clear()
        self._again.clear()

    # and back

    def started(self, key: str, worker: str) -> list[AnyEvent]:
        """A worker begins a bundle."""
        bundle = self._bundles.get(key)
        if bundle is None:
            return []  # Dask makes lost data again: nobody asked for this
        bundle.worker, bundle.since = worker, self._now()
        return [started(next(iter(bundle.specs.values())), at=bundle.since, pool=bundle.pool, worker=worker)]

    def reported(self, key: str, worker: str, reports: Sequence[TaskReport]) -> None:
        """A worker is done with a bundle; it counts when Dask has the result too."""
        self._reports[key] = (worker, reports)

    def through(self, key: str, fetching: float) -> list[AnyEvent]:
        """Dask has the result of a bundle, so that its worker may go. It took so many seconds to fetch the inputs."""
        if key in self._left:
            return self._through_again(key)
        bundle = self._bundles.get(key)
        if bundle is None or key not in self._reports:
            return []
        events = self._outcomes(bundle, fetching)
        self._close(bundle)
        bundle.future = None  # Dask may forget it with the last of its names
        if any(spec.leaving for spec in bundle.specs.values()):
            bundle.slim()
            self._left[key] = bundle
        return events

    def _outcomes(self, bundle: Bundle, fetching: float) -> list[AnyEvent]:
        """What became of the tasks of a bundle, as if each had been told of in its time."""
        bundle.worker, reports = self._reports.pop(bundle.key)
        events: list[AnyEvent] = []
        at = bundle.since
        for number, report in enumerate(reports):
            outcome = report.outcome
            began, at = at, min(self._now(), at + outcome.seconds)
            spec = bundle.specs.get(outcome.task)
            if spec is None:
                continue  # cancelled meanwhile
            if number:
                events.append(started(spec, at=began, pool=bundle.pool, worker=bundle.worker))
            if outcome.failure is None:
                self._keep(bundle, spec, report)
            else:
                self._bundle_of.pop(bundle.specs.pop(outcome.task).task)
            each = fetching / len(reports)
            events.append(event_of(outcome, spec, at=at, pool=bundle.pool, worker=bundle.worker, fetch_seconds=each))
        return events

    def _keep(self, bundle: Bundle, spec: TaskSpec, report: TaskReport) -> None:
        outcome, products = report.outcome, report.products
        self._bundling.finish(spec, outcome.seconds)
        segment, ran = self._segments[spec.segment], spec.kind == "run"
        carries_skims = ran and "files" in segment.products.values()
        packed = bring_home(products, self._files, self._written, _writes(segment)) if carries_skims else [products]
        wait = is_worth_waiting(spec.kind, outcome.seconds)
        for name, content in report.kept.items():
            self._store.write_packed(name, [content])
        self._store.write_packed(spec.key, packed, wait=wait)
        self._futures.update(dict.fromkeys(spec.leaving.values(), bundle.future))

    def made_again(self, key: str) -> list[AnyEvent]:
        """The events of finished tasks went with their worker, and Dask makes them again."""
        if key not in self._left:
            return []
        self._again.add(key)
        bundle = self._left[key]
        return [ResultLost(at=self._now(), task=task, pool=bundle.pool) for task in bundle.specs]

    def _through_again(self, key: str) -> list[AnyEvent]:
        bundle = self._left[key]
        self._again.discard(key)
        if key not in self._reports:
            return []
        worker, reports = self._reports.pop(key)
        return [
            event_of(one.outcome, bundle.specs[one.outcome.task], at=self._now(), pool=bundle.pool, worker=worker)
            for one in reports
            if one.outcome.task in bundle.specs
        ]

    def forgotten(self, key: str) -> list[AnyEvent]:
        """Nobody needs the result of a bundle any more; if it was being made again, that has come to nothing."""
        self._reports.pop(key, None)
        bundle = self._left.pop(key, None)
        if bundle is None or key not in self._again:
            return []
        self._again.discard(key)
        return [ResultNotNeeded(at=self._now(), task=task, pool=bundle.pool) for task in bundle.specs]

    def failed(self, key: str, worker: str, outcome: Outcome) -> list[AnyEvent]:
        """A task ended its worker."""
        bundle = self._bundles.get(key)
        if bundle is None or outcome.task not in bundle.specs:
            return []
        spec = self._take_out(bundle, outcome.task)
        return [event_of(outcome, spec, at=self._now(), pool=bundle.pool, worker=worker)]

    def erred(self, key: str, text: str) -> list[AnyEvent]:
        """Dask itself failed."""
        bundle = self._bundles.get(key)
        if bundle is None:
            return []
        self._release(bundle)
        info = FailureInfo(cause="internal", message=f"Dask could not run it: {text}")
        return [self._failure(bundle, spec, info) for spec in bundle.specs.values()]

    def lost_with(self, worker: str, words: FailureInfo) -> tuple[list[AnyEvent], list[AnyEvent]]:
        """A worker is gone: what is to be told before that, and what after it.

        Nobody knows which task of a bundle it was at: for the engine it had all of them.
        """
        before: list[AnyEvent] = []
        after: list[AnyEvent] = []
        for bundle in [bundle for bundle in self._bundles.values() if bundle.worker == worker]:
            first, *others = bundle.specs.values()
            before += [started(spec, at=self._now(), pool=bundle.pool, worker=worker) for spec in others]
            self._release(bundle)
            if not others:
                self._bundling.take_longer(first, self._now() - bundle.since)
            # Whose fault it was that memory ran out shows when each runs alone.
            told = FailureInfo(cause="lost", message=words.message) if others and words.cause == "oom" else words
            after += [self._failure(bundle, spec, told) for spec in (first, *others)]
        return before, after

    def _failure(self, bundle: Bundle, spec: TaskSpec, info: FailureInfo) -> TaskFailed:
        at = self._now()
        seconds = at - bundle.since if bundle.worker else 0.0
        return failed(spec, info, at=at, pool=bundle.pool, worker=bundle.worker or "", seconds=seconds)

    def _take_out(self, bundle: Bundle, task: int) -> TaskSpec:
        """Wait no longer for this task; a bundle that nobody waits for is cancelled."""
        spec = bundle.specs.pop(task)
        del self._bundle_of[task]
        if not bundle.specs:
            self._release(bundle)
        return spec

    def _release(self, bundle: Bundle) -> None:
        self._close(bundle)
        self._reports.pop(bundle.key, None)
        bundle.future.cancel(force=True)

    def _close(self, bundle: Bundle) -> None:
        self._bundles.pop(bundle.key, None)
        for task in bundle.specs:
            self._bundle_of.pop(task, None)


def _writes(segment: Segment) -> list[WriteStep]:
    """Every skim that its tasks write."""
    return [write for step in segment.steps for write in step.writes]
