"""Naive model of the controller: dictionaries, copied before each command and restored if the command fails.

It has no tables, indexes or bytes. A refusal is the name of its error."""

import copy
from dataclasses import astuple, replace
from typing import Any

from raftlog.partitions.controller.machine import (
    AddPartitions,
    AllocateProducerIds,
    AlterClientQuotas,
    AlterClusterConfig,
    AlterTopicConfigs,
    Bootstrap,
    Command,
    CommandRequest,
    CreateAcls,
    CreateTopic,
    DeleteAcls,
    DeleteTopic,
    DeleteUser,
    RegisterBroker,
    RemoveBroker,
    SetAssignment,
    SetFeatureLevel,
    SetMaintenance,
    SetUserCredentials,
    UpdateBroker,
)


class Refused(Exception):
    """Command that the rules forbid."""


def refuse_if(when: bool, error: str) -> None:
    if when:
        raise Refused(error)


class Model:
    """Expected contents of the controller's state machine."""

    def __init__(self, answers_max: int, rows_max: int) -> None:
        self.data: dict[str, Any] = {
            "bootstrap": None,
            "brokers": {},
            "retired": {},
            "topics": {},
            "deleted": set(),
            "producer_id": 0,
            "level": 0,
            "maintenance": {},
            "settings": ({}, 0),
            "created": {},
            "users": {},
            "acls": {},
            "quotas": {},
            "secret": None,
        }
        self.answers: list[tuple[Any, int, Any]] = []
        self.forgotten = 0
        self._answers_max = answers_max
        self._users_max, self._acls_max, self._quotas_max = rows_max, 2 * rows_max, rows_max

    def apply(self, request: CommandRequest, index: int) -> Any:
        """Apply a command; return the answer, or the class name of the error."""
        for request_id, _, answer in self.answers:
            if request_id == request.request_id:
                return answer
        if request.basis_index < self.forgotten:
            return "OutcomeUnknown"
        before = copy.deepcopy(self.data)
        try:
            answer = self._do(request.command, index)
        except Refused as refusal:
            self.data = before
            answer = str(refusal)
        self.answers.append((request.request_id, index, answer))
        if len(self.answers) > self._answers_max:
            self.forgotten = self.answers.pop(0)[1]
        return answer

    def _do(self, command: Command, index: int) -> int:
        """Apply a command and return the version that its answer has."""
        refuse_if(self.data["bootstrap"] is None and not isinstance(command, Bootstrap), "Unavailable")
        match command:
            case Bootstrap():
                refuse_if(self.data["bootstrap"] not in (None, command), "InvalidArgument")
                self.data["bootstrap"] = command
                self.data["level"] = self.data["level"] or command.feature_level
            case RegisterBroker():
                return self._register(command, index)
            case UpdateBroker():
                broker = self._broker(command)
                refuse_if(command.expected_version not in (None, broker["version"]), "VersionConflict")
                if broker["draining"] != command.is_draining:
                    broker.update(draining=command.is_draining, version=index)
                return int(broker["version"])
            case RemoveBroker():
                self._remove_broker(command)
            case AllocateProducerIds():
                refuse_if(self._broker(command)["epoch"] != command.boot_epoch, "IdentityRefused")
                self.data["producer_id"] += command.count
                return int(self.data["producer_id"]) - command.count
            case SetFeatureLevel():
                self._raise_level(command.level)
            case SetMaintenance():
                return self._maintain(command, index)
            case AlterClusterConfig():
                return self._alter_cluster(command, index)
            case SetUserCredentials() | DeleteUser() | CreateAcls() | DeleteAcls() | AlterClientQuotas():
                refuse_if(self.data["level"] < 3, "InvalidArgument")
                return self._secure(command, index)
            case CreateTopic():
                self._create(command, index)
            case AddPartitions():
                self._add_partitions(command, index)
            case DeleteTopic():
                self._topic(command)
                del self.data["topics"][command.topic_id]
                self.data["deleted"].add(command.topic_id)
            case AlterTopicConfigs():
                self._alter(command, index)
            case SetAssignment():
                self._assign(command, index)
        return index

    def _secure(self, command: Any, index: int) -> int:
        """Apply a command about users, ACLs or quotas."""
        acls, quotas = self.data["acls"], self.data["quotas"]
        match command:
            case SetUserCredentials():
                return self._set_user(command, index)
            case DeleteUser():
                refuse_if(command.name not in self.data["users"], "UnknownUser")
                version = self.data["users"].pop(command.name)["version"]
                refuse_if(command.expected_version not in (None, version), "VersionConflict")
            case CreateAcls():
                new = [astuple(entry) for entry in command.entries if astuple(entry) not in acls]
                refuse_if(len(acls) + len(new) > self._acls_max, "ChangeRefused")
                acls.update(dict.fromkeys(new, index))
                return int(max(acls[astuple(entry)] for entry in command.entries))
            case DeleteAcls():
                gone = [acls.pop(astuple(entry), None) for entry in command.entries]
                return index if any(gone) else 0
            case AlterClientQuotas():
                before, version = quotas.get(command.entity, ({}, 0))
                after = {name: value for name, value in before.items() if name not in command.unset}
                after.update(command.quotas)
                if after == before:
                    return int(version)
                refuse_if(not before and len(quotas) == self._quotas_max, "ChangeRefused")
                quotas[command.entity] = (after, index)
                if not after:
                    del quotas[command.entity]
        return index

    def _set_user(self, command: SetUserCredentials, index: int) -> int:
        users, name = self.data["users"], command.name
        refuse_if(command.is_first and self.data["secret"] is not None, "ChangeRefused")
        refuse_if(command.expected_version == 0 and name in users, "UserExists")
        user = users.get(name, {"credentials": {}, "super": False, "version": 0})
        refuse_if(command.expected_version not in (None, user["version"]), "VersionConflict")
        refuse_if(any(number not in user["credentials"] for number in command.removed), "UnknownUser")
        refuse_if(name not in users and not command.credentials, "UnknownUser")
        refuse_if(name not in users and len(users) == self._users_max, "ChangeRefused")
        self.data["secret"] = self.data["secret"] or command.secret
        after = {number: each for number, each in user["credentials"].items() if number not in command.removed}
        after.update({each.mechanism: each for each in command.credentials})
        changed = {
            "credentials": after,
            "super": user["super"] if command.is_superuser is None else command.is_superuser,
        }
        if not after:
            del users[name]
        elif changed.items() <= user.items():
            return int(user["version"])
        else:
            users[name] = {**changed, "version": index}
        return index

    def _owner(self, node_id: int) -> Any:
        if node_id in self.data["brokers"]:
            return self.data["brokers"][node_id]["disk"]
        owners = [seed.disk_uuid for seed in self.data["bootstrap"].seeds if seed.node_id == node_id]
        return owners[0] if owners and owners[0] not in self.data["retired"] else None

    def _register(self, command: RegisterBroker, index: int) -> int:
        brokers, retired, node, disk = self.data["brokers"], self.data["retired"], command.node_id, command.disk_uuid
        refuse_if(bool(command.addresses.kafka) and self.data["level"] < 2, "InvalidArgument")
        refuse_if(disk in retired, "IdentityRefused")
        everybody = {seed.node_id: seed.disk_uuid for seed in self.data["bootstrap"].seeds}
        holders = [other for other, its in everybody.items() if its == disk]
        holders += [other for other, broker in brokers.items() if broker["disk"] == disk]
        refuse_if(any(other != node for other in holders), "IdentityRefused")
        owner = self._owner(node)
        refuse_if(owner not in (None, disk, command.replaces), "IdentityRefused")
        if command.replaces is not None and command.replaces != owner:
            refuse_if(retired.get(command.replaces) != node, "IdentityRefused")
        refuse_if(not command.feature_level_min <= self.data["level"] <= command.feature_level_max, "InvalidArgument")
        levels = (command.feature_level_min, command.feature_level_max)
        kafka, rest = command.addresses.kafka, (command.host, replace(command.addresses, kafka=()), levels)
        told = {"epoch": command.boot_epoch, "rest": rest, "kafka": kafka, "levels": levels}
        old = brokers.get(node) if owner == disk else None
        before = brokers.get(node)
        draining = bool(before and before["draining"]) if command.is_draining is None else command.is_draining
        if old is not None:
            refuse_if(told["epoch"] < old["epoch"], "IdentityRefused")
            refuse_if(told["epoch"] == old["epoch"] and told["rest"] != old["rest"], "IdentityRefused")
            refuse_if(told["epoch"] == old["epoch"] and old["kafka"] not in ((), kafka), "IdentityRefused")
            if told["epoch"] == old["epoch"] and draining == old["draining"] and kafka == old["kafka"]:
                return int(old["version"])
        if owner not in (None, disk):
            retired[owner] = node
            self._replace((node, owner), (node, disk), index)
        brokers[node] = {**told, "disk": disk, "host": command.host, "draining": draining, "version": index}
        return index

    def _replace(self, old: Any, new: Any, index: int) -> None:
        for topic in self.data["topics"].values():
            for number, replicas in enumerate(topic["now"]):
                if old in replicas:
                    topic["now"][number] = tuple(new if each == old else each for each in replicas)
                    topic["versions"][number] = index

    def _raise_level(self, level: int) -> None:
        refuse_if(level < self.data["level"], "InvalidArgument")
        if level == self.data["level"]:
            return
        brokers = self.data["brokers"]
        refuse_if(
            any(not low <= level <= high for low, high in (each["levels"] for each in brokers.values())),
            "InvalidArgument",
        )
        seeds = self.data["bootstrap"].seeds
        missing = [seed for seed in seeds if seed.node_id not in brokers and seed.disk_uuid not in self.data["retired"]]
        refuse_if(bool(missing), "ChangeRefused")
        self.data["level"] = level

    def _maintain(self, command: SetMaintenance, index: int) -> int:
        """Switch a broker's maintenance on or off."""
        self._broker(command)
        rows, node = self.data["maintenance"], command.node_id
        is_on, version = rows.get(node, (False, 0))
        refuse_if(command.expected_version not in (None, version), "VersionConflict")
        if is_on == command.is_on:
            return int(version)
        others = {other for other, (other_on, _) in rows.items() if other_on}
        if command.is_on:
            refuse_if(len(self.data["brokers"]) == 1, "InvalidArgument")
            resting = {*others, node}
            refuse_if(bool(others) and 2 * len(resting) >= len(self.data["brokers"]), "ChangeRefused")
            for topic in self.data["topics"].values():
                for replicas in topic["now"]:
                    among = [each for each, _ in replicas if each in resting]
                    is_here = (node, command.disk_uuid) in replicas
                    refuse_if(is_here and len(among) > 1 and 2 * len(among) >= len(replicas), "ChangeRefused")
        rows[node] = (command.is_on, index)
        return index

    def _alter_cluster(self, command: AlterClusterConfig, index: int) -> int:
        configs, version = self.data["settings"]
        refuse_if(command.expected_version not in (None, version), "VersionConflict")
        after = {name: value for name, value in configs.items() if name not in command.unset}
        after.update(command.configs)
        if after == configs:
            return int(version)
        self.data["settings"] = (after, index)
        return index

    def _broker(self, command: UpdateBroker | AllocateProducerIds | SetMaintenance) -> dict[str, Any]:
        broker: dict[str, Any] | None = self.data["brokers"].get(command.node_id)
        if broker is None or broker["disk"] != command.disk_uuid:
            raise Refused("UnknownBroker")
        return broker

    def _remove_broker(self, command: RemoveBroker) -> None:
        refuse_if(self._owner(command.node_id) != command.disk_uuid, "UnknownBroker")
        mine = (command.node_id, command.disk_uuid)
        refuse_if(
            any(mine in group for topic in self.data["topics"].values() for group in topic["now"]), "ChangeRefused"
        )
        there = self.data["brokers"].get(command.node_id)
        refuse_if(there is not None and not there["draining"], "ChangeRefused")
        self.data["brokers"].pop(command.node_id, None)
        self.data["maintenance"].pop(command.node_id, None)
        self.data["retired"][command.disk_uuid] = command.node_id

    def _hosts(self, replicas: Any, known: Any = ()) -> None:
        hosts = []
        for node_id, disk in replicas:
            broker = self.data["brokers"].get(node_id)
            is_there = broker is not None and broker["disk"] == disk
            refuse_if(not is_there and (node_id, disk) not in known, "UnknownBroker")
            hosts += [broker["host"]] if is_there else []
        refuse_if(len(hosts) != len(set(hosts)), "InvalidArgument")

    def _create(self, command: CreateTopic, index: int) -> None:
        topics = self.data["topics"]
        refuse_if(command.topic_id in self.data["deleted"], "InvalidArgument")
        taken = command.topic_id in topics or any(topic["name"] == command.name for topic in topics.values())
        refuse_if(taken, "TopicExists")
        self._all_hosts(command.partitions)
        configs = dict(command.configs)
        refuse_if(int(configs.get("min.insync.replicas", 1)) > command.replication_factor, "InvalidArgument")
        now = [tuple(tuple(replica) for replica in replicas) for replicas in command.partitions]
        versions = [index] * len(now)
        self.data["created"].update({(command.topic_id, number): replicas for number, replicas in enumerate(now)})
        topics[command.topic_id] = {
            "name": command.name,
            "now": now,
            "versions": versions,
            "configs": configs,
            "version": index,
        }

    def _all_hosts(self, placed: Any) -> None:
        for wanted in ("UnknownBroker", "InvalidArgument"):  # an unknown broker anywhere comes before shared hosts
            for replicas in placed:
                try:
                    self._hosts(replicas)
                except Refused as refusal:
                    refuse_if(str(refusal) == wanted, wanted)

    def _add_partitions(self, command: AddPartitions, index: int) -> None:
        refuse_if(self.data["level"] < 2, "InvalidArgument")
        topic = self._topic(command)
        refuse_if(command.name.startswith("__"), "InvalidArgument")
        refuse_if(len(topic["now"]) != command.partition_count, "VersionConflict")
        self._all_hosts(command.partitions)
        factor = len(command.partitions[0])
        refuse_if(int(topic["configs"].get("min.insync.replicas", 1)) > factor, "InvalidArgument")
        for replicas in command.partitions:
            now = tuple(tuple(replica) for replica in replicas)
            self.data["created"][command.topic_id, len(topic["now"])] = now
            topic["now"].append(now)
            topic["versions"].append(index)
        topic["version"] = index

    def _topic(self, command: AddPartitions | DeleteTopic | AlterTopicConfigs) -> dict[str, Any]:
        topic: dict[str, Any] = self.data["topics"].get(command.topic_id, {"name": None})
        refuse_if(topic["name"] != command.name, "UnknownTopic")
        return topic

    def _alter(self, command: AlterTopicConfigs, index: int) -> None:
        topic = self._topic(command)
        refuse_if(command.expected_version not in (None, topic["version"]), "VersionConflict")
        for name in command.unset:
            topic["configs"].pop(name, None)
        topic["configs"].update(command.configs)
        wanted = int(topic["configs"].get("min.insync.replicas", 1))
        refuse_if(any(wanted > len(replicas) for replicas in topic["now"]), "InvalidArgument")
        topic["version"] = index

    def _assign(self, command: SetAssignment, index: int) -> None:
        topic = self.data["topics"].get(command.topic_id)
        refuse_if(topic is None, "UnknownTopic")
        refuse_if(command.partition >= len(topic["now"]), "UnknownPartition")
        refuse_if(command.expected_version != topic["versions"][command.partition], "VersionConflict")
        target = tuple(tuple(replica) for replica in command.replicas)
        self._hosts(target, topic["now"][command.partition])
        wanted = int(topic["configs"].get("min.insync.replicas", 1))
        refuse_if(wanted > len(target), "InvalidArgument")
        topic["now"][command.partition], topic["versions"][command.partition] = target, index
