"""Names of topics and groups as users give them."""

from collections.abc import Iterable

from raftlog.errors import InvalidArgument


def check_name(name: object, what: str = "topic") -> str:
    """Return the name; raise `InvalidArgument`, with a hint, if it is no str, or UTF-8 cannot encode it.

    `what` is the kind of name for the error."""
    if isinstance(name, str):
        try:
            name.encode()
        except UnicodeEncodeError:  # surrogates, such as those of an argument of a command that is not UTF-8
            raise InvalidArgument(f"{what} {name!a} is not text that UTF-8 can encode") from None
        return name
    if isinstance(name, bytes | bytearray):
        hint = f"decode it ({what}.decode())"
    elif isinstance(name, Iterable):
        hint = "give each as an argument of its own"
    else:
        hint = f"give the {what}'s name"
    raise InvalidArgument(f"{what} is {type(name).__name__} {name!r}, not a str; {hint}")


def check_names(topics: str | Iterable[str]) -> tuple[str, ...]:
    """Return each topic once; one str is one topic. Raises `InvalidArgument`."""
    given = (topics,) if isinstance(topics, str | bytes) else topics
    return tuple(dict.fromkeys([check_name(topic) for topic in given]))
