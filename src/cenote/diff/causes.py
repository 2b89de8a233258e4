"""Find what went into two runs and is not the same: workflow, code, data, software."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import PurePath

from cenote.diff.records import Causes, SharedData
from cenote.runs.changed.code import changed_functions, changed_software
from cenote.runs.folder import RunFolder
from cenote.runs.ingredients import Ingredients, changes, new_files
from cenote.runs.provenance import PluginRecord, Provenance
from cenote.runs.read_records import read_if_whole
from cenote.values import dataclass


@dataclass(frozen=True)
class WentIn:
    """What a run was made of, as far as it is written down."""

    provenance: Provenance
    ingredients: Ingredients | None

    @property
    def files(self) -> Mapping[str, tuple[tuple[str, str, int], ...]]:
        """Dataset → its files: name, what is in it or its stamp, events."""
        if self.ingredients is not None and self.ingredients.files:
            return self.ingredients.files
        found: dict[str, tuple[tuple[str, str, int], ...]] = {}
        for one in self.provenance.inputs:
            found[one.dataset] = (*found.get(one.dataset, ()), (one.file, one.stamp or one.file, one.events))
        return found

    @property
    def software(self) -> dict[str, str]:
        """Package → its version, Python and Cenote among them."""
        own = {"cenote": self.provenance.cenote, "Python": self.provenance.python}
        return {name: version for name, version in {**own, **self.provenance.software}.items() if version}


def went_into(run: RunFolder) -> WentIn:
    """A record that is missing or damaged costs what it would have said."""
    provenance = read_if_whole(run.provenance, Provenance) or Provenance()
    return WentIn(provenance, read_if_whole(run.ingredients, Ingredients))


def changed_causes(before: WentIn, after: WentIn) -> Causes:
    """What is not the same, in words."""
    software = changed_software(before.software, after.software)
    functions: tuple[str, ...] = ()
    if before.ingredients is not None and after.ingredients is not None:
        functions = changed_functions(before.ingredients.functions, after.ingredients.functions)
        found = [cause for causes in changes(before.ingredients, after.ingredients).values() for cause in causes]
        known = {*functions, *software}
        workflow = tuple(cause for cause in dict.fromkeys(found) if cause not in known)
    else:
        workflow = tuple(_by_the_file(before.provenance, after.provenance))
    code = functions or tuple(_by_plugins(before.provenance, after.provenance))
    return Causes(workflow, code, tuple(_changed_data(before, after)), software)


def _by_the_file(before: Provenance, after: Provenance) -> list[str]:
    """Where runs did not note their ingredients."""
    one, other = before.workflow, after.workflow
    if one.sha256 == other.sha256 and before.plan == after.plan:
        return []
    name = PurePath(other.file).name or "the workflow"
    if one.sha256 == other.sha256:
        return [f"the plan of {name} changed: by its options, its data or its code"]
    return [f"{name} changed"]


def _by_plugins(before: Provenance, after: Provenance) -> list[str]:
    ours, theirs = ({_name(one): one for one in side.plugins} for side in (before, after))
    found = [f"{name} is new" for name in theirs if name not in ours]
    found += [f"{name} is gone" for name in ours if name not in theirs]
    return found + [f"{name} changed" for name in theirs if name in ours and ours[name].sha256 != theirs[name].sha256]


def _name(plugin: PluginRecord) -> str:
    return PurePath(plugin.file).name if isinstance(plugin.file, str) else str(plugin.module)


def _changed_data(before: WentIn, after: WentIn) -> list[str]:
    found = [f"dataset {name} is new" for name in after.files if name not in before.files]
    found += [f"dataset {name} is gone" for name in before.files if name not in after.files]
    both = {name: files for name, files in after.files.items() if name in before.files}
    changed = new_files(Ingredients(files=dict(before.files)), Ingredients(files=both))
    return found + [f"{words} (dataset {name})" for name, one in changed.items() for words in one]


def shared_data(before: WentIn, after: WentIn, datasets: Mapping[str, object] | None = None) -> SharedData:
    """How much of their data both runs read, of these datasets or of all."""
    ours, theirs = before.files, after.files
    names = [name for name in dict.fromkeys((*ours, *theirs)) if datasets is None or name in datasets]
    one, other = ({content for name in names for _, content, _ in side.get(name, ())} for side in (ours, theirs))
    if not one or not other:
        return "unknown"
    return "all" if one == other else "some" if one & other else "none"
