"""Event loop of the synchronous clients in a thread of its own."""

import asyncio
import socket
import threading

from raftlog.client.loop_thread import LoopThread


def test_close_ends_what_still_runs_and_its_connections() -> None:
    connected, ended = threading.Event(), []
    with socket.create_server(("127.0.0.1", 0)) as server:

        async def stay_connected() -> None:
            _, writer = await asyncio.open_connection(*server.getsockname())
            connected.set()
            try:
                await asyncio.Event().wait()
            finally:
                writer.close()
                await writer.wait_closed()
                ended.append(writer)

        thread = LoopThread("test")
        thread.submit(stay_connected())
        accepted, _ = server.accept()
        with accepted:
            accepted.settimeout(10)
            assert connected.wait(10)
            thread.close()
            assert len(ended) == 1
            assert accepted.recv(1) == b""
    assert thread.is_closed
