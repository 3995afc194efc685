"""Ports of loopback that stay ours, also while nobody listens on them.

A port that was free a moment ago may be somebody else's when a broker binds it, and again between its death and its
next start. So the port stays bound here, without listening, for as long as the cluster lives: Linux lets a broker bind
it as well (both sockets have SO_REUSEADDR and only one listens) and gives it to nobody who asks for any free port.
"""

import socket

HOST = "127.0.0.1"


def hold_port() -> socket.socket:
    """A socket that keeps a free port; closing it gives the port back."""
    held = socket.socket()
    held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    held.bind((HOST, 0))
    return held


def listen() -> socket.socket:
    """A socket that listens on a free port."""
    return socket.create_server((HOST, 0), backlog=128)


def address_of(bound: socket.socket) -> str:
    """`HOST:PORT`."""
    host, port = bound.getsockname()[:2]
    return f"{host}:{port}"
