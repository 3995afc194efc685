"""Client that sent a request, as its listener identified it. Made by API servers, once per connection."""

from typing import Final, NamedTuple

ANONYMOUS: Final = "ANONYMOUS"
"""Principal of clients that prove no identity; the name is Kafka's."""


class Caller(NamedTuple):
    """Client of a connection.

    `address` is the host of the connection, `client_id` the name that the client gives itself, empty for none, and
    `listener` the name of the listener that received the request."""

    principal: str
    client_id: str
    address: str
    listener: str
