"""Operations that a simulation must not use: sockets, files, processes, threads and signals of the real machine."""

from typing import Any, Final, NoReturn

FORBIDDEN: Final = (
    "add_reader",
    "add_signal_handler",
    "add_writer",
    "connect_accepted_socket",
    "connect_read_pipe",
    "connect_write_pipe",
    "create_connection",
    "create_datagram_endpoint",
    "create_server",
    "create_unix_connection",
    "create_unix_server",
    "getaddrinfo",
    "getnameinfo",
    "remove_reader",
    "remove_signal_handler",
    "remove_writer",
    "run_in_executor",
    "sendfile",
    "set_default_executor",
    "sock_accept",
    "sock_connect",
    "sock_recv",
    "sock_recv_into",
    "sock_recvfrom",
    "sock_recvfrom_into",
    "sock_sendall",
    "sock_sendfile",
    "sock_sendto",
    "start_tls",
    "subprocess_exec",
    "subprocess_shell",
)


class RealInputOutput(RuntimeError):
    """Use of an operation that exists only outside of the simulation."""


def forbid(cls: type, names: tuple[str, ...] = FORBIDDEN) -> None:
    """Make each of the methods raise `RealInputOutput`, at the call and not at the `await`."""
    for name in names:
        setattr(cls, name, _make_refusal(name))


def _make_refusal(name: str) -> Any:
    """Return a method of this name that raises `RealInputOutput`."""

    def refused(*args: object, **options: object) -> NoReturn:
        """Raise `RealInputOutput`."""
        raise RealInputOutput(f"{name} does not exist in virtual time: simulated code does no real input or output")

    refused.__name__ = refused.__qualname__ = name
    return refused
