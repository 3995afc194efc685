"""Process of a gossip member: its SWIM machine and state. A restart keeps disk and address."""

import math
from random import Random
from typing import NamedTuple

from raftlog.membership.config import SwimConfig
from raftlog.membership.member import BOOT_INCARNATIONS, Address, GossipIdentity
from raftlog.membership.messages import Message
from raftlog.membership.swim import Sender, Swim
from raftlog.types import NodeId

PORT = 7946
INBOX_MAX = 200
"""Number of datagrams that wait while a process is paused; further ones are lost."""


class Datagram(NamedTuple):
    """Received datagram; while the process is paused it waits in the inbox."""

    messages: tuple[Message, ...]
    sender: Sender


class Process:
    """Simulated process with a gossip member.

    `wake_at` is the time of the next call of `tick`; `starts` counts the starts."""

    def __init__(self, node_id: NodeId) -> None:
        self.node_id = node_id
        self.address = Address(f"10.0.{node_id >> 8}.{node_id & 255}", PORT)
        self.sender = Sender(node_id, self.address)
        self.starts = 0
        self.disk = 0
        self.boot_epoch = 0
        self.description = b""
        self.is_up = False
        self.has_left = False
        self.is_paused = False
        self.resumed_at = self.ended_at = -math.inf
        self.inbox: list[Datagram] = []
        self.wake_at = math.inf
        self.swim: Swim

    @property
    def name(self) -> str:
        return f"n{self.node_id}"

    @property
    def disk_uuid(self) -> bytes:
        """Identity of the present disk: node id and number of the disk."""
        return self.node_id.to_bytes(8) + self.disk.to_bytes(8)

    @property
    def first_incarnation(self) -> int:
        """Lowest incarnation of the present start."""
        return self.boot_epoch * BOOT_INCARNATIONS

    @property
    def is_running(self) -> bool:
        """Whether the process is up and not paused."""
        return self.is_up and not self.is_paused

    def begin(self, description: bytes, config: SwimConfig, random: Random) -> None:
        """Start the process. Of its earlier starts only the boot epoch on the disk remains."""
        assert not self.is_up, f"{self.name} is up"
        self.starts += 1
        self.boot_epoch += 1
        self.description = description
        identity = GossipIdentity(self.node_id, self.disk_uuid, self.address, self.boot_epoch)
        self.swim = Swim(identity, description, config, random)
        self.is_up, self.has_left, self.is_paused = True, False, False
        self.inbox.clear()
        self.wake_at = math.inf

    def end(self, now: float) -> None:
        """End the process at once, at the time `now`."""
        self.ended_at = now
        self.is_up = self.is_paused = False
        self.inbox.clear()
        self.wake_at = math.inf

    def wipe(self) -> None:
        """Replace the disk for the next start."""
        self.disk += 1
        self.boot_epoch = 0
