"""`raftlog group …`: the table of its verbs."""

import click

from raftlog.cli.lazy import LazyGroup, Verb

VERBS = {
    "list": Verb("group.describe:list_groups", "List all groups with their states."),
    "describe": Verb(
        "group.describe:describe", "Show a group's state, its members, and how far it is in each partition."
    ),
    "lag": Verb("group.describe:lag", "Show how far a group is behind."),
    "offsets": Verb("group.offsets:offsets", "Show what a group has committed, or commit more."),
    "reset-offsets": Verb("group.reset:reset_offsets", "Move what a group has committed."),
    "delete-offsets": Verb("group.offsets:delete_offsets", "Forget what a group has committed in a topic."),
    "delete": Verb("group.offsets:delete", "Delete a group and all that it has committed."),
}


@click.group(cls=LazyGroup, verbs=VERBS)
def group() -> None:
    """Show consumer groups, and change what they have committed."""
