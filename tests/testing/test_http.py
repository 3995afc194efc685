"""Requests to brokers: an incomplete answer leaves no open socket."""

import socket
from concurrent.futures import ThreadPoolExecutor

import pytest

from raftlog.testing import BrokerFailed
from raftlog.testing.http import ask


def test_an_incomplete_answer_leaves_no_socket_open() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server, ThreadPoolExecutor(1) as pool:

        def answer() -> None:
            connection, _ = server.accept()
            with connection:
                connection.recv(1 << 16)
                connection.sendall(b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 10\r\n\r\n{")
                connection.settimeout(5)
                assert not connection.recv(1), "it is closed"

        answered = pool.submit(answer)
        with pytest.raises(BrokerFailed, match="timed out"):
            ask(f"127.0.0.1:{server.getsockname()[1]}", "/", timeout_s=0.2)
        answered.result()
