"""Frames of Kafka's protocol on blocking sockets: a size of four bytes, and the body."""

import socket


def receive_frame(connection: socket.socket) -> bytes:
    """Return the body of the next frame. Raises `OSError`, even when the node closes the connection."""
    return _receive(connection, int.from_bytes(_receive(connection, 4), "big"))


def _receive(connection: socket.socket, size: int) -> bytes:
    """Return exactly `size` bytes."""
    data = b""
    while len(data) < size:
        piece = connection.recv(size - len(data))
        if not piece:
            raise ConnectionError("closed by the node")
        data += piece
    return data
