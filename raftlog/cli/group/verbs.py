"""`raftlog group …`: the table of its verbs."""

import click

from raftlog.cli.lazy import LazyGroup, Verb

_DESCRIBE = "raftlog.cli.group.describe"
_OFFSETS = "raftlog.cli.group.offsets"

VERBS = {
    "list": Verb(_DESCRIBE, "list_groups", "List all groups with their states."),
    "describe": Verb(_DESCRIBE, "describe", "Show a group's state, its members, and how far it is in each partition."),
    "lag": Verb(_DESCRIBE, "lag", "Show how far a group is behind."),
    "offsets": Verb(_OFFSETS, "offsets", "Show what a group has committed, or commit more."),
    "reset-offsets": Verb("raftlog.cli.group.reset", "reset_offsets", "Move what a group has committed."),
    "delete-offsets": Verb(_OFFSETS, "delete_offsets", "Forget what a group has committed in a topic."),
    "delete": Verb(_OFFSETS, "delete", "Delete a group and all that it has committed."),
}


@click.group(cls=LazyGroup, verbs=VERBS)
def group() -> None:
    """Show consumer groups, and change what they have committed."""
