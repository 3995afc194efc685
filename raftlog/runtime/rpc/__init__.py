"""The transport between processes: frames over TCP, optionally TLS, for Raft messages, heartbeats and requests.

Who may come in: the composition root, which makes a `TcpTransport`, hands it to the driver and sets its hooks; routing,
which makes `Call`s; status pages. The driver knows only `raftlog.runtime.transport.Transport`. Pickle is used nowhere.
"""

from raftlog.runtime.rpc.authentication import Credentials, credentials_of
from raftlog.runtime.rpc.calls import Answer, Call, row_of
from raftlog.runtime.rpc.config import RpcConfig
from raftlog.runtime.rpc.errors import (
    BadFrame,
    ConnectionLost,
    HandshakeRefused,
    NoAnswer,
    NotConnected,
)
from raftlog.runtime.rpc.handshake import Channel, HandshakeRefusal, PeerIdentity, Reason
from raftlog.runtime.rpc.memory import PeerMemory, PeerRecord
from raftlog.runtime.rpc.peer import ChannelStatus
from raftlog.runtime.rpc.tcp_transport import PeerStatus, TcpTransport
from raftlog.runtime.rpc.tls import TlsContexts, TlsFiles, check_certificate, check_host, load_tls
from raftlog.runtime.rpc.traffic import TrafficTotals

__all__ = [
    "Answer",
    "BadFrame",
    "Call",
    "Channel",
    "ChannelStatus",
    "ConnectionLost",
    "Credentials",
    "HandshakeRefusal",
    "HandshakeRefused",
    "NoAnswer",
    "NotConnected",
    "PeerIdentity",
    "PeerMemory",
    "PeerRecord",
    "PeerStatus",
    "Reason",
    "RpcConfig",
    "TcpTransport",
    "TlsContexts",
    "TlsFiles",
    "TrafficTotals",
    "check_certificate",
    "check_host",
    "credentials_of",
    "load_tls",
    "row_of",
]
