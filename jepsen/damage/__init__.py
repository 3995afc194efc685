"""Files of brokers that are damaged, lost, or as they were before; for nemeses and scenarios. What the product promises
for each is in docs/OPERATIONS.md, "Trouble"."""

from jepsen.damage.files import SURVIVABLE, FileKind
from jepsen.damage.harm import delete, flip_bits, truncate, wipe
from jepsen.damage.snapshot import Snapshot

__all__ = ["SURVIVABLE", "FileKind", "Snapshot", "delete", "flip_bits", "truncate", "wipe"]
