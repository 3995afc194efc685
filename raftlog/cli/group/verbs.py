"""`raftlog group …`: the table of its verbs."""

import click

from raftlog.cli.lazy import LazyGroup, Verb

VERBS = {
    "list": Verb("group.describe:list_groups", "List all groups with their states."),
    "describe": Verb("group.describe:describe", "Show a group's state, its members, and its lag in each partition."),
    "lag": Verb("group.describe:lag", "Show the lag of a group."),
    "offsets": Verb("group.offsets:offsets", "Show the committed offsets of a group, or commit more."),
    "reset-offsets": Verb("group.reset:reset_offsets", "Move the committed offsets of a group."),
    "delete-offsets": Verb("group.offsets:delete_offsets", "Delete the committed offsets of a group in a topic."),
    "delete": Verb("group.offsets:delete", "Delete a group and its committed offsets."),
}


@click.group(cls=LazyGroup, verbs=VERBS)
def group() -> None:
    """Show consumer groups, and change their committed offsets."""
