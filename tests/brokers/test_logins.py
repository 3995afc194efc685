"""Logins on every broker of a cluster: from its own copy of the users, also without the controller's majority."""

from pathlib import Path

import pytest

from raftlog.errors import AuthenticationFailed
from raftlog.partitions.caller import ANONYMOUS, Caller
from raftlog.partitions.deadline import deadline_in
from tests.brokers.conftest import brokers_in
from tests.waiting import until

ORIGIN = Caller(ANONYMOUS, "", "192.0.2.1", "http")


async def test_logins_go_on_without_a_majority_of_the_controller(tmp_path: Path) -> None:
    async with brokers_in(tmp_path) as brokers:
        await brokers.start()
        users = brokers[1].security.users
        await users.create("alice", "pencil", caller=ORIGIN, deadline=deadline_in(10_000))
        for broker in brokers.running.values():
            await until(lambda found=broker: found.security.users.version_of("alice"))
            identity = await broker.security.authenticator.check_password("alice", "pencil", ORIGIN, "Basic")
            assert identity.principal == "alice"
        await brokers.stop(2, 3)
        authenticator = brokers[1].security.authenticator
        assert authenticator.is_current(identity)
        assert (await authenticator.check_password("alice", "pencil", ORIGIN, "Basic")).principal == "alice"
        with pytest.raises(AuthenticationFailed):
            await authenticator.check_password("alice", "wrong", ORIGIN, "Basic")


async def test_salts_of_unknown_users_are_the_same_on_all_brokers(tmp_path: Path) -> None:
    async with brokers_in(tmp_path) as brokers:
        await brokers.start()
        await brokers[1].security.users.create("alice", "pencil", caller=ORIGIN, deadline=deadline_in(10_000))
        salts = set()
        for broker in brokers.running.values():
            await until(lambda found=broker: found.security.users.version_of("alice"))
            login = broker.security.authenticator.begin("SCRAM-SHA-256")
            assert await login.step(b"n,,n=nobody,r=nonce", ORIGIN) is None
            salts.add(login.data.partition(b",s=")[2])
        assert len(salts) == 1
