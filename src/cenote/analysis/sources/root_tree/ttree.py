"""Describe and read a TTree."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import uproot

from cenote.analysis.operations.support.events import Column
from cenote.analysis.sources.interface import ColumnInfo, named
from cenote.analysis.sources.root_tree.baskets import PlainBranch, PlainType
from cenote.analysis.sources.root_tree.interpretations import holds_bits, understood
from cenote.analysis.sources.root_tree.open_file import OpenTree
from cenote.analysis.sources.root_tree.plain_file import NEVER_FILLED, read_branches
from cenote.analysis.sources.support.files import explained, is_remote
from cenote.common import errors
from cenote.common.arrays import ak
from cenote.common.errors import ErrorKind
from cenote.common.values import dataclass

# Ask uproot whether a branch is plain: then we can read it ourselves.


def plain_branch_of(branch: Any) -> PlainBranch | None:  # Any: uproot publishes no types
    """None for a branch that needs uproot: objects, leaf lists, bits, packed numbers, baskets in the tree itself."""
    kind = _plain_type(branch.interpretation)
    count = int(branch.member("fWriteBasket"))
    if kind is None or len(branch.member("fLeaves")) != 1 or not branch.num_baskets == count > 0 or holds_bits(branch):
        return None
    counter = branch.count_branch
    return PlainBranch(
        type=kind,
        counter=branch.object_path if counter is None or kind.header else counter.object_path,
        entries=list(map(int, branch.entry_offsets)),
        seeks=branch.member("fBasketSeek")[:count].tolist(),
        sizes=branch.member("fBasketBytes")[:count].tolist(),
    )


def _plain_type(interpretation: Any) -> PlainType | None:
    jagged = type(interpretation) is uproot.AsJagged
    content = interpretation.content if jagged else interpretation
    if type(content) is not uproot.AsDtype:
        return None
    stored, in_memory = content.from_dtype.base, content.to_dtype.base.newbyteorder("=")
    shape = content.from_dtype.shape
    if content.to_dtype.shape != shape or stored.kind not in "biuf":
        return None
    header = int(interpretation.header_bytes) if jagged else 0
    return PlainType(stored.str, in_memory.str, jagged=jagged, shape=shape, header=header)


_HERE = uproot.source.futures.TrivialExecutor()
"""Decompresses in the calling thread: a worker has one core, and handing over costs more than it gains."""

_DECODED: set[tuple[str, str]] = set()
"""Branches of objects, and their classes, that this process has decoded."""

_TEXTS = ("string", "bytestring")
_OF_THE_FORMAT = "@"
"""In the names of numbers that say how objects are stored."""


@dataclass(frozen=True)
class Leaf:
    """Where the values of a column are: in a branch, or in a field of the objects that the branch holds."""

    branch: Any  # uproot publishes no types
    fields: tuple[str, ...] = ()
    unreadable: str = ""
    """Why it has no values that a column could hold; empty where it has."""

    @property
    def own_name(self) -> str:
        """Of a branch within another that does not begin with the name of that one; else empty."""
        above = getattr(self.branch.parent, "name", "")
        within = isinstance(self.branch.parent, uproot.TBranch) and not self.fields
        return self.branch.name if within and not self.branch.name.startswith(above.rstrip(".")) else ""


def branches(opened: OpenTree) -> dict[str, Leaf]:
    """Column name → where it is, for every branch with values of its own; objects have a column for each number."""
    leaves: dict[str, Leaf] = {}
    for path, branch in opened.tree.iteritems(recursive=True, full_paths=True):
        if not isinstance(branch.interpretation, uproot.interpretation.grouped.AsGrouped):
            for leaf in _leaves(branch) if _is_filled(opened, branch) else [Leaf(branch, unreadable=NEVER_FILLED)]:
                leaves.setdefault(_dotted(path, leaf), leaf)
    return {name: leaves[path] for name, path in named(leaves).items()}


def plain_branch(opened: OpenTree, name: str) -> Leaf | None:
    """The branch of this very name, if it is one of numbers: found without looking at all the others."""
    try:
        branch = opened.tree[name]
    except uproot.exceptions.KeyInFileError:
        return None
    # Below other branches, one of this name may be another column.
    at_the_top = branch.parent is opened.tree and branch.name == name
    is_plain = at_the_top and _holds_numbers(branch.interpretation) and _is_filled(opened, branch)
    return Leaf(branch) if is_plain else None


def _holds_numbers(interpretation: Any) -> bool:
    """Whether each entry is a number or a list of numbers, as most are: then nothing else needs to be asked."""
    content = interpretation.content if type(interpretation) is uproot.AsJagged else interpretation
    return type(content) is uproot.AsDtype and content.to_dtype.base.names is None


def _is_usual(branch: Any) -> bool:
    """Whether uproot reads its numbers as they are by itself."""
    return _holds_numbers(branch.interpretation) and understood(branch) is branch.interpretation


def _as_numpy(interpretation: Any) -> Any | None:
    """How numpy holds the entries, if all have one size: numbers, lists of a fixed length, leaf lists, objects.

    Of objects uproot makes records, but not where a range ends with a basket (5.7): their numbers are read instead.
    """
    if type(interpretation) is uproot.AsStridedObjects:
        return uproot.AsDtype(interpretation.from_dtype, interpretation.to_dtype)
    return interpretation if type(interpretation) is uproot.AsDtype else None


def _is_filled(opened: OpenTree, branch: Any) -> bool:
    return bool(branch.entry_offsets[-1] > 0 or opened.tree.num_entries == 0)


def _leaves(branch: Any) -> list[Leaf]:
    interpretation = branch.interpretation
    if _is_read_wrongly(interpretation):
        return [Leaf(branch, unreadable=f"holds {_type_name(branch)}, which uproot decodes wrongly")]
    if _holds_numbers(interpretation):
        return [Leaf(branch)]
    if isinstance(interpretation, uproot.interpretation.identify.UnknownInterpretation):
        return [Leaf(branch, unreadable=f"holds {_type_name(branch)}, which cannot be decoded")]
    found = [Leaf(branch, fields) for fields in _fields_of(branch)]
    if not found:
        return [Leaf(branch, unreadable=f"holds {_type_name(branch)}, which no column of numbers or texts can hold")]
    if _holds_objects(interpretation) and not _is_decoded(branch, found):
        why = f"holds {_type_name(branch)} in a form that uproot cannot decode: stored whole, or memberwise"
        return [replace(leaf, unreadable=why) for leaf in found]
    return found


def _fields_of(branch: Any) -> list[tuple[str, ...]]:
    """The path of every number or text in its objects; none where they hold something else."""
    in_numpy = _as_numpy(branch.interpretation)
    if in_numpy is not None:
        return [(name,) for name in in_numpy.to_dtype.names or () if _OF_THE_FORMAT not in name]
    try:
        return list(_fields_in(branch.interpretation.awkward_form(branch.file)))
    except (uproot.interpretation.objects.CannotBeAwkward, NotImplementedError, TypeError, ValueError):
        return []


def _holds_objects(interpretation: Any) -> bool:
    content = interpretation.content if type(interpretation) is uproot.AsJagged else interpretation
    return isinstance(content, uproot.AsObjects | uproot.AsStridedObjects)


def _is_decoded(branch: Any, leaves: Sequence[Leaf]) -> bool:
    """Whether the first objects come out as their class says: only trying tells how they are stored.

    Of files made alike, the first is tried. Damage is no reason: it is told, with its place, by who reads.
    """
    kind = (branch.object_path, _type_name(branch))
    if kind in _DECODED or not branch.num_baskets or not _is_whole(branch):
        return True
    try:
        first = _read_one(branch, 0, 1)
        for leaf in leaves:
            _field(first, leaf.fields)
    except Exception:  # uproot raises many types
        return False
    _DECODED.add(kind)
    return True


def _is_whole(branch: Any) -> bool:
    """Whether the first basket can be decompressed."""
    try:
        return branch.basket(0) is not None
    except Exception:  # decompressors and uproot raise many types
        return False


def _is_read_wrongly(interpretation: Any) -> bool:
    """Lists of arrays of packed numbers (`Double32_t x[3]` of each track): uproot 5.7 fills a part of them only."""
    if type(interpretation) is not uproot.AsJagged:
        return False
    content = interpretation.content
    return isinstance(content, uproot.interpretation.numerical.TruncatedNumerical) and bool(content.to_dims)


def _type_name(branch: Any) -> str:
    try:
        return str(branch.typename)
    except KeyError:  # uproot 5.7 has no name for them
        return "arrays of leaf lists"


def _fields_in(form: Any, above: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """The path of every field that holds numbers or texts: `("fP", "fX")`."""
    if isinstance(form, ak.forms.RecordForm):
        for field in (name for name in form.fields if _OF_THE_FORMAT not in name):
            yield from _fields_in(form.content(field), (*above, field))
    elif isinstance(form, ak.forms.UnionForm):
        raise TypeError("values of several types")
    elif form.parameter("__array__") not in _TEXTS and hasattr(form, "content"):
        yield from _fields_in(form.content, above)
    else:
        yield above


def _dotted(start: str, leaf: Leaf) -> str:
    return ".".join((start, *(field.replace("/", ".") for field in leaf.fields)))


def describe(found: Mapping[str, Leaf]) -> dict[str, ColumnInfo]:
    """The columns with their types and uncompressed sizes."""
    return {
        name: ColumnInfo(_dotted(_type_name(leaf.branch), leaf), _size(leaf), leaf.unreadable, leaf.own_name)
        for name, leaf in found.items()
    }


def _size(leaf: Leaf) -> int:
    return int(leaf.branch.member("fTotBytes"))


def content(opened: OpenTree) -> str:
    """As `FileInfo` has it: by all that the tree says of its branches, and the baskets that it holds itself."""
    return opened.content_by(opened.tree.chunk.raw_data)


def places(found: Mapping[str, Leaf]) -> dict[str, PlainBranch]:
    """Where the baskets of the plain columns are."""
    readable = {name: leaf.branch for name, leaf in found.items() if not leaf.unreadable and not leaf.fields}
    plain = {name: plain_branch_of(branch) for name, branch in readable.items()}
    return {name: branch for name, branch in plain.items() if branch is not None}


def starts(found: Mapping[str, Leaf]) -> list[tuple[list[int], int]]:
    """Where the baskets of each branch start, the end included, and its size."""
    branches = {id(leaf.branch): leaf for leaf in found.values() if leaf.branch.num_baskets}
    return [(leaf.branch.entry_offsets, _size(leaf)) for leaf in branches.values()]


def read(opened: OpenTree, chosen: Mapping[str, Leaf], start: int, stop: int, *, kind: ErrorKind) -> dict[str, Column]:
    """These columns for entries [start, stop); each branch is read once."""
    of_numbers = {id(leaf.branch): leaf.branch for leaf in chosen.values() if _is_usual(leaf.branch)}
    together = is_remote(opened.url) and len({branch.name for branch in of_numbers.values()}) == len(of_numbers)
    arrays = _read_together(opened, of_numbers, start, stop, kind=kind) if together else {}
    columns = {} if is_remote(opened.url) else _read_plain(opened, chosen, start, stop)
    for name, leaf in chosen.items():
        if name in columns:
            continue
        number = id(leaf.branch)
        with explained(opened.url, kind, what=f"branch '{name}' of {opened.url}"):
            if number not in arrays:
                arrays[number] = _read_one(leaf.branch, start, stop)
            columns[name] = _field(arrays[number], leaf.fields)
    return {name: columns[name] for name in chosen}


def _read_plain(opened: OpenTree, chosen: Mapping[str, Leaf], start: int, stop: int) -> dict[str, Column]:
    plain = {name: _plain(opened, leaf.branch) for name, leaf in chosen.items() if not leaf.fields}
    found = {name: one for name, one in plain.items() if one is not None}
    return read_branches(opened.url, found, start, stop, identity=opened.stamp) or {}


def _field(array: Column, fields: tuple[str, ...]) -> Column:
    if not fields:
        return array
    return as_column(array[fields[0]] if isinstance(array, np.ndarray) else array[fields])


def _plain(opened: OpenTree, branch: Any) -> PlainBranch | None:
    """Found out once: a file may be read in very many small pieces."""
    if branch.object_path not in opened.plain:
        opened.plain[branch.object_path] = plain_branch_of(branch)
    return opened.plain[branch.object_path]


def _read_one(branch: Any, start: int, stop: int) -> Column:
    interpretation, in_numpy = branch.interpretation, _as_numpy(branch.interpretation)
    if start == stop and in_numpy is None and not _holds_numbers(interpretation):
        # Of no entries, uproot gives objects other fields.
        return as_column(ak.Array(interpretation.awkward_form(branch.file).length_zero_array(highlevel=False)))
    array = branch.array(
        understood(branch) if in_numpy is None or in_numpy is interpretation else in_numpy,
        entry_start=start,
        entry_stop=stop,
        library="ak" if in_numpy is None else "np",
        array_cache=None,
        decompression_executor=_HERE,
        interpretation_executor=_HERE,
    )
    return _whole(as_column(array), branch, stop - start)


def _whole(column: Column, branch: Any, entries: int) -> Column:
    if len(column) != entries:
        raise errors.error(
            errors.BAD_INPUT, f"branch '{branch.name}' of {branch.file.file_path} was filled for some entries only"
        )
    return column


def _read_together(
    opened: OpenTree, found: Mapping[int, Any], start: int, stop: int, *, kind: ErrorKind
) -> dict[int, Column]:
    """In one call, so that all baskets are asked for at once: over a network the waiting is what costs."""
    with explained(opened.url, kind):
        arrays = opened.tree.arrays(
            filter_branch=lambda branch: id(branch) in found,
            entry_start=start,
            entry_stop=stop,
            how=dict,
            array_cache=None,
        )
    return {number: _whole(as_column(arrays[branch.name]), branch, stop - start) for number, branch in found.items()}


def as_column(array: Any) -> Column:
    """Plain numpy for one number per event, awkward for the rest (fixed-length lists count as lists)."""
    if isinstance(array, np.ndarray):
        if array.ndim == 1 and array.dtype != object:
            return array
        array = ak.from_numpy(array, regulararray=True)
    layout = array.layout
    if isinstance(layout, ak.contents.NumpyArray) and layout.purelist_depth == 1 and layout.inner_shape == ():
        return layout.data
    return ak.from_regular(array, axis=None) if array.ndim > 1 else array
