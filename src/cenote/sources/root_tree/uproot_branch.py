"""Ask uproot whether a branch is plain: then we can read it ourselves."""

from __future__ import annotations

from typing import Any

import uproot

from cenote.sources.root_tree.baskets import PlainBranch, PlainType
from cenote.sources.root_tree.interpretations import holds_bits


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
