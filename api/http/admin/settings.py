"""Handlers of /v1/cluster_config, settings that all brokers follow at run time, and /v1/features, the feature level."""

from typing import Any

from aiohttp import web
from msgspec import UNSET

from raftlog.api.codes import BAD_REQUEST, INVALID_JSON, NOT_FOUND
from raftlog.api.http.admin.parameters import expected_version
from raftlog.api.http.bounds import CHANGES_MAX, SETTING_TEXT_MAX
from raftlog.api.http.openapi.parts import BOOLEAN, string
from raftlog.api.http.requests import ClusterSettingsBody, FeatureLevelBody
from raftlog.api.http.server.answers import json_answer, value_answer
from raftlog.api.http.server.endpoint import ETAG, ORDERED, VERSIONED, HttpEndpoint, in_query
from raftlog.api.http.server.handlers import Handlers
from raftlog.api.http.server.permissions import (
    ALTER_CLUSTER,
    ALTER_CLUSTER_CONFIGS,
    DESCRIBE_CLUSTER,
    DESCRIBE_CLUSTER_CONFIGS,
)
from raftlog.api.http.server.problems import HttpProblem
from raftlog.api.http.server.routing import Target, flag
from raftlog.errors import InvalidArgument
from raftlog.partitions.deadline import Deadline
from raftlog.values.brokers import Features
from raftlog.values.cluster import ClusterSettingsSchema, ClusterSettingsStatus, ClusterSettingsVersion, SettingValue

_CONFIG = "/v1/cluster_config"
_KEY = in_query("key", string(examples=["balancer.mode"]), "Only this setting.")
_DEFAULTS = in_query("include_defaults", BOOLEAN | {"default": True}, "Include settings that were never set.")


class SettingHandlers(Handlers):
    """Handlers for cluster settings, their versions on brokers, and the feature level."""

    @HttpEndpoint(
        f"GET {_CONFIG}",
        dict[str, SettingValue],
        (_KEY, _DEFAULTS, "timeout"),
        headers=ETAG,
        permissions=DESCRIBE_CLUSTER_CONFIGS,
    )
    async def cluster_config(self, request: web.BaseRequest, target: Target) -> web.StreamResponse:
        """Return the cluster's settings."""
        found = await self._broker.operations.cluster.cluster_config(deadline=target.deadline())
        key, with_defaults = target.query.get("key"), flag(target, "include_defaults", default=True)
        if key is not None and key not in found.values:
            known = ", ".join(found.values)
            raise HttpProblem(NOT_FOUND, f"there is no setting {key!r} of the cluster; there are {known}")
        shown = {
            name: value
            for name, value in found.values.items()
            if key in (None, name) and (with_defaults or name in found.changed)
        }
        return json_answer(shown, headers={"ETag": f'"{found.version}"'})

    @HttpEndpoint(
        f"PUT {_CONFIG}",
        ClusterSettingsVersion,
        ("dry_run", *VERSIONED),
        ClusterSettingsBody,
        ORDERED,
        permissions=ALTER_CLUSTER_CONFIGS,
    )
    async def alter_cluster_config(self, request: web.BaseRequest, target: Target) -> web.StreamResponse:
        """Set some cluster settings and reset others to their defaults, all or none.

        The body is `{"upsert": {name: value}, "remove": [name]}`."""
        dry_run, expected = flag(target, "dry_run"), expected_version(request, target)
        deadline = target.deadline()
        upsert, remove = _parse_changes(await self._bodies.read(request, ClusterSettingsBody))
        version = await self._broker.operations.cluster.alter_cluster_config(
            upsert, remove, expected_version=expected, dry_run=dry_run, deadline=deadline
        )
        return value_answer(ClusterSettingsVersion(version), version=version)

    @HttpEndpoint(f"GET {_CONFIG}/schema", ClusterSettingsSchema, permissions=DESCRIBE_CLUSTER_CONFIGS)
    async def cluster_config_schema(self, request: web.BaseRequest, target: Target) -> web.StreamResponse:
        """Return the cluster settings with their defaults and allowed values."""
        found = await self._broker.operations.cluster.cluster_config(deadline=target.deadline())
        return value_answer(ClusterSettingsSchema(found.properties))

    @HttpEndpoint(f"GET {_CONFIG}/status", list[ClusterSettingsStatus], permissions=DESCRIBE_CLUSTER_CONFIGS)
    async def cluster_config_status(self, request: web.BaseRequest, target: Target) -> web.StreamResponse:
        """Return the version of the cluster settings that each broker uses."""
        return value_answer(await self._broker.operations.cluster.cluster_config_status(deadline=target.deadline()))

    @HttpEndpoint("GET /v1/features", Features, permissions=DESCRIBE_CLUSTER)
    async def features(self, request: web.BaseRequest, target: Target) -> web.StreamResponse:
        """Return the cluster's feature level and those that its brokers support."""
        return value_answer(await self._broker.operations.cluster.feature_levels(deadline=target.deadline()))

    @HttpEndpoint("PUT /v1/features", Features, body=FeatureLevelBody, text=ORDERED, permissions=ALTER_CLUSTER)
    async def finish_upgrade(self, request: web.BaseRequest, target: Target) -> web.StreamResponse:
        """Finish an upgrade by raising the feature level.

        The body is `{"feature_level": 3}`, by default the highest level that all brokers support."""
        deadline = target.deadline()
        wanted = (await self._bodies.read(request, FeatureLevelBody)).feature_level
        await self._raise_level(None if wanted is UNSET else wanted, deadline)
        return value_answer(await self._broker.operations.cluster.feature_levels(deadline=deadline))

    async def _raise_level(self, wanted: int | None, deadline: Deadline) -> None:
        """Raise the feature level to the highest that all brokers support; do nothing if it is at least `wanted`.

        Raises `InvalidArgument` if `wanted` is another level; None is always valid."""
        levels = await self._broker.operations.cluster.feature_levels(deadline=deadline)
        if wanted is not None and 1 <= wanted <= levels.feature_level:
            return
        if wanted not in (None, levels.highest_known_by_all):
            raise InvalidArgument(_describe_refusal(wanted, levels))
        await self._broker.operations.cluster.finish_upgrade(deadline=deadline)


def _describe_refusal(wanted: int, levels: Features) -> str:
    """Return why the feature level cannot be raised to `wanted`, and which brokers must be upgraded before."""
    behind = [each for each in levels.brokers if each.level_max < wanted]
    levels_known = ", ".join(f"node {each.node_id} supports up to {each.level_max}" for each in behind)
    return (
        f"the feature level is {levels.feature_level} and can be raised to {levels.highest_known_by_all}, not {wanted}"
        + (f": {levels_known}; upgrade these brokers first" if behind else "")
    )


def _parse_changes(body: ClusterSettingsBody) -> tuple[dict[str, Any], list[str]]:
    """Return the settings to write and the names to remove; raises `HttpProblem`."""
    upsert, remove = body.upsert, body.remove
    if len(upsert) + len(remove) > CHANGES_MAX or any(len(name) > SETTING_TEXT_MAX for name in (*upsert, *remove)):
        raise HttpProblem(
            BAD_REQUEST,
            f"at most {CHANGES_MAX} settings can be changed at once, "
            f"with names of at most {SETTING_TEXT_MAX} characters",
        )
    for name, value in upsert.items():
        if type(value) not in (str, int, bool):
            raise HttpProblem(INVALID_JSON, f"the value of setting {name!r} is not text, a whole number, true or false")
        if type(value) is str and len(value) > SETTING_TEXT_MAX:
            raise HttpProblem(BAD_REQUEST, f"the value of setting {name!r} has more than {SETTING_TEXT_MAX} characters")
    return upsert, remove
