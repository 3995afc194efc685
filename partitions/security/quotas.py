"""Client quotas: changes and descriptions through the controller, and the value that applies to a client.

An entity is a user, a client id, both, or an address (`ip`), as in Kafka (KIP-13, KIP-546, KIP-612); the empty name is
the default of its type. Used by API servers."""

import ipaddress
import math
from collections.abc import Mapping, Sequence
from enum import IntEnum
from typing import Final, NamedTuple, TypeAlias

from raftlog.errors import InvalidArgument
from raftlog.partitions.caller import Caller
from raftlog.partitions.controller import ControllerHost
from raftlog.partitions.controller.machine import AlterClientQuotas, check_level, settings_of
from raftlog.partitions.controller.machine.security_commands import ENTITY_TYPES
from raftlog.partitions.deadline import Deadline
from raftlog.partitions.security.audit import write_quotas_changed

Entity: TypeAlias = Mapping[str, str]
"""Names by type; an empty name is the default of its type."""
USER: Final = "user"
CLIENT_ID: Final = "client-id"
IP: Final = "ip"
DEFAULT: Final = ""
VALUE_MAX: Final = float(1 << 53)
_CLIENT_QUOTAS: Final = ("consumer_byte_rate", "controller_mutation_rate", "producer_byte_rate", "request_percentage")
_IP_QUOTAS: Final = ("connection_creation_rate",)
_FRACTIONS: Final = ("controller_mutation_rate", "request_percentage")


class QuotaMatch(IntEnum):
    """Ways to match an entity's name, by Kafka's numbers."""

    EXACT = 0
    DEFAULT = 1
    ANY = 2


class QuotaFilter(NamedTuple):
    """Condition on the names of one type (user, client id or IP) in an entity; `name` is for `EXACT`."""

    type: str
    match: QuotaMatch
    name: str = DEFAULT

    def matches(self, entity: Entity) -> bool:
        """Return whether an entity has a name of this filter's type that the filter accepts."""
        name = entity.get(self.type)
        if name is None or self.match is QuotaMatch.ANY:
            return name is not None
        return name == (DEFAULT if self.match is QuotaMatch.DEFAULT else self.name)


class EntityQuotas(NamedTuple):
    """Quotas of one entity: bytes per second, percent of one thread's time, partitions or connections per second."""

    entity: dict[str, str]
    values: dict[str, float]


class Quotas:
    """Client quotas of the cluster."""

    def __init__(self, metadata: ControllerHost) -> None:
        self._metadata = metadata

    @property
    def has_any(self) -> bool:
        """Whether any entity has quotas."""
        return len(self._metadata.state.client_quotas) > 0

    def value(self, name: str, user: str, client_id: str) -> float | None:
        """Return the quota of a client, that of the most specific entity which has one; None without a limit."""
        found = self.find(name, user, client_id)
        return None if found is None else found[0]

    def find(self, name: str, user: str, client_id: str) -> tuple[float, tuple[tuple[str, str], ...]] | None:
        """Return the quota of a client as `value` does, and the names of this client that share it."""
        if not self.has_any:
            return None
        own = {USER: user, CLIENT_ID: client_id}
        for entity in (
            ((CLIENT_ID, client_id), (USER, user)),
            ((CLIENT_ID, DEFAULT), (USER, user)),
            ((USER, user),),
            ((CLIENT_ID, client_id), (USER, DEFAULT)),
            ((CLIENT_ID, DEFAULT), (USER, DEFAULT)),
            ((USER, DEFAULT),),
            ((CLIENT_ID, client_id),),
            ((CLIENT_ID, DEFAULT),),
        ):
            found = self._value_of(entity, name)
            if found is not None:
                return found, tuple((type_, own[type_]) for type_, _ in entity)
        return None

    def connection_rate(self, address: str) -> float | None:
        """Return the connections per second that an address may open; None without a limit."""
        for name in (address, DEFAULT):
            found = self._value_of(((IP, name),), _IP_QUOTAS[0])
            if found is not None:
                return found
        return None

    def _value_of(self, entity: tuple[tuple[str, str], ...], name: str) -> float | None:
        """Return the value of a quota of exactly this entity; None without one."""
        row = self._metadata.state.client_quotas.get(entity)
        text = None if row is None else dict(row.quotas).get(name)
        return None if text is None else float(text)

    async def describe(
        self, filters: Sequence[QuotaFilter] = (), *, is_strict: bool = False, deadline: Deadline
    ) -> list[EntityQuotas]:
        """Return the entities that fit all filters, sorted.

        `is_strict`: only those that have no name of another type."""
        for each in filters:
            _check_type(each.type)
        await self._metadata.barrier(deadline)
        types = {each.type for each in filters}
        found = []
        for row in sorted(self._metadata.state.client_quotas, key=lambda row: row.entity):
            entity = dict(row.entity)
            if all(each.matches(entity) for each in filters) and not (is_strict and entity.keys() != types):
                found.append(EntityQuotas(entity, {name: float(text) for name, text in row.quotas}))
        return found

    async def alter(
        self, entity: Entity, changes: Mapping[str, float | None], *, caller: Caller, deadline: Deadline, dry_run: bool
    ) -> None:
        """Set quotas of an entity, and remove those whose value is None. Raises `InvalidArgument`.

        `dry_run`: only check whether it could be done."""
        texts = {name: _text(name, value) for name, value in changes.items() if value is not None}
        unset = sorted(name for name, value in changes.items() if value is None)
        pairs = settings_of({type_: _name(type_, name) for type_, name in entity.items()})
        command = AlterClientQuotas(pairs, settings_of(texts), tuple(unset))
        allowed = _IP_QUOTAS if IP in entity else _CLIENT_QUOTAS
        unknown = sorted(name for name in changes if name not in allowed)
        if unknown:
            raise InvalidArgument(f"quota {unknown[0]!r} does not exist here; there are {', '.join(allowed)}")
        check_level(command, self._metadata.state.feature_level)
        if not dry_run:
            await self._metadata.submit(command, deadline)
            write_quotas_changed(caller, pairs, texts, unset)


def _check_type(type_: str) -> None:
    """Raise `InvalidArgument` for an unknown entity type."""
    if type_ not in ENTITY_TYPES:
        raise InvalidArgument(f"entity type {type_!r} does not exist; there are {', '.join(ENTITY_TYPES)}")


def _name(type_: str, name: str) -> str:
    """Return the canonical name of a quota's entity. Raises `InvalidArgument` for an invalid IP address."""
    _check_type(type_)
    if type_ != IP or name == DEFAULT:
        return name
    try:
        return str(ipaddress.ip_address(name))
    except ValueError:
        raise InvalidArgument(f"{name!r} is not an IP address") from None


def _text(name: str, value: float) -> str:
    """Return a quota's value as text. Raises `InvalidArgument` if it is out of range."""
    if not math.isfinite(value) or not 0 < value <= VALUE_MAX:
        raise InvalidArgument(f"{name} cannot be {value}; it is above 0 and at most 2**53")
    if float(value).is_integer():
        return str(int(value))
    if name not in _FRACTIONS:
        raise InvalidArgument(f"{name} cannot be {value}; it is a whole number")
    return repr(float(value))
