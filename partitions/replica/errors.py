"""Errors of a replica that is damaged or closed."""

from raftlog.errors import LogClosed, LogDamaged, RaftlogError


def damaged_error(name: str, why: str, *, is_alone: bool) -> LogDamaged:
    """Return the error for a partition without a leader because of damage."""
    others = "it has no other one" if is_alone else "none is sound, or none can be reached"
    return LogDamaged(
        f"{name} takes no records because it is damaged ({why}); sound offsets can be read. It would be repaired from "
        f"another replica, and {others}: `raftlog partition recover {name}` lists the options"
    )


def closed_error(name: str, why: RaftlogError | None) -> LogClosed:
    """Return the error for a closed replica, with the cause if it stopped by itself."""
    if why is None or isinstance(why, LogClosed):
        return LogClosed(f"{name} is closed: the broker stops, or the topic was deleted")
    return LogClosed(f"{name} stopped: {why}; restart the broker when the disk is sound")
