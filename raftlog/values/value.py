"""Bases of declared values, the number types that they share, and their JSON.

`Value`   an answer: all fields are always written; a reader ignores unknown fields
`UNSET`   in place of a field: the field is not written
"""

from typing import Annotated, Any, Final, Literal, Self, TypeAlias

import msgspec
from msgspec import UNSET, Meta, Struct, UnsetType

__all__ = [
    "UNSET",
    "Count",
    "LeaderNumber",
    "Namespace",
    "NodeNumber",
    "UnsetType",
    "Value",
    "Version",
    "leader_number",
    "to_json",
]

NODE_MAX: Final = (1 << 31) - 1
NO_LEADER: Final = -1
"""Number in place of the leader, if a partition has none, or if the leader does not answer."""

NodeNumber: TypeAlias = Annotated[int, Meta(ge=0, le=NODE_MAX)]
LeaderNumber: TypeAlias = Annotated[int, Meta(ge=NO_LEADER, le=NODE_MAX)]
Count: TypeAlias = Annotated[int, Meta(ge=0)]
Namespace: TypeAlias = Literal["kafka"]
"""Namespace of all topics."""
Version: TypeAlias = Annotated[int, Meta(ge=0, description="What `expected_version` and `If-Match` are compared with.")]


class Value(Struct, frozen=True):
    """Base class of values in answers."""

    def copy_with(self, **fields: Any) -> Self:
        """Return a copy with new values of these fields."""
        return msgspec.structs.replace(self, **fields)


to_json = msgspec.json.encode
"""Return a value, or lists and mappings of values, as JSON."""


def leader_number(node: int | None) -> int:
    """Return the node id of a leader, or `NO_LEADER`."""
    return NO_LEADER if node is None else node
