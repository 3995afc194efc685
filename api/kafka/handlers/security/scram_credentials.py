"""Handlers of DescribeUserScramCredentials and AlterUserScramCredentials (KIP-554): users, as Kafka's tools see them.

The client salts the password, so that the broker never receives it; the broker derives the two keys and stores them.
All changes to one user are made together; different users are independent. A PLAIN login may match any of the
credentials."""

from collections import Counter
from collections.abc import Sequence
from typing import Any, Final

from raftlog.api.kafka.api import NO_DEADLINE_MS, ApiKey, KafkaApi, KafkaRequest
from raftlog.api.kafka.context import KafkaContext
from raftlog.api.kafka.error_codes import ErrorCode, code_of
from raftlog.api.kafka.wire.schemas import answer_class
from raftlog.errors import InvalidArgument, RaftlogError
from raftlog.partitions.caller import Caller
from raftlog.partitions.deadline import Deadline, deadline_in
from raftlog.security.credentials import ScramCredential, ScramMechanism, from_salted
from raftlog.security.permissions import CLUSTER, AclOperation

USERS_MAX: Final = 1_000
"""Users that one request may change."""
_MECHANISMS: Final = frozenset(map(int, ScramMechanism))


class ScramCredentialRequests:
    """Handlers for the SCRAM credentials of users."""

    def __init__(self, context: KafkaContext) -> None:
        self._users, self._authorizer = context.broker.security.users, context.broker.security.authorizer

    def apis(self) -> list[KafkaApi]:
        """Return the APIs that this class serves."""
        return [
            KafkaApi(ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS, (0, 0), self.describe),
            KafkaApi(ApiKey.ALTER_USER_SCRAM_CREDENTIALS, (0, 0), self.alter),
        ]

    async def describe(self, request: KafkaRequest) -> Any:
        """Return mechanisms and iterations of the named users, or of all users if none is named; no secrets."""
        answer = answer_class(request.key)
        row, info = answer.DescribeUserScramCredentialsResult, answer.DescribeUserScramCredentialsResult.CredentialInfo
        self._authorizer.authorize(request.caller, AclOperation.DESCRIBE, CLUSTER)
        known = {user.name: user for user in await self._users.list(deadline=deadline_in(NO_DEADLINE_MS))}
        asked = Counter(each.name for each in request.message.users or ())
        results = []
        for name in asked or known:
            user = known.get(name)
            if asked[name] > 1:
                code, message = ErrorCode.DUPLICATE_RESOURCE, f"user {name!r} is named more than once"
            elif user is None:
                code, message = ErrorCode.RESOURCE_NOT_FOUND, f"user {name!r} does not exist"
            else:
                infos = [info(mechanism=int(key), iterations=count) for key, count in sorted(user.iterations.items())]
                results.append(row(user=name, error_code=ErrorCode.NONE, error_message=None, credential_infos=infos))
                continue
            results.append(row(user=name, error_code=code, error_message=message, credential_infos=[]))
        return answer(throttle_time_ms=0, error_code=ErrorCode.NONE, error_message=None, results=results)

    async def alter(self, request: KafkaRequest) -> Any:
        """Set and delete credentials of users."""
        message, deadline = request.message, deadline_in(NO_DEADLINE_MS)
        names = dict.fromkeys(each.name for each in (*message.deletions, *message.upsertions))
        answer = answer_class(request.key)
        row = answer.AlterUserScramCredentialsResult
        results = []
        for name in names:
            error: RaftlogError | None = None
            code = ErrorCode.NONE
            upserted = [each for each in message.upsertions if each.name == name]
            deleted = [each for each in message.deletions if each.name == name]
            try:
                self._authorizer.authorize(request.caller, AclOperation.ALTER, CLUSTER)
                if len(names) > USERS_MAX:
                    raise InvalidArgument(f"a request changes at most {USERS_MAX} users, not {len(names)}")
                code = await self._alter_user(name, upserted, deleted, request.caller, deadline)
                text = _TEXTS.get(code)
            except RaftlogError as raised:
                error, text = raised, str(raised)
                code = ErrorCode.UNACCEPTABLE_CREDENTIAL if isinstance(error, InvalidArgument) else code_of(error)
            results.append(row(user=name, error_code=code, error_message=text))
        return answer(throttle_time_ms=0, results=results)

    async def _alter_user(
        self, name: str, upserted: Sequence[Any], deleted: Sequence[Any], caller: Caller, deadline: Deadline
    ) -> ErrorCode:
        """Change the credentials of one user; return the error code, NONE on success. Raises `RaftlogError`."""
        mechanisms = [each.mechanism for each in (*upserted, *deleted)]
        if not _MECHANISMS.issuperset(mechanisms):
            return ErrorCode.UNSUPPORTED_SASL_MECHANISM
        if len(set(mechanisms)) < len(mechanisms):
            return ErrorCode.DUPLICATE_RESOURCE
        added = [_credential(each) for each in upserted]
        removed = [ScramMechanism(each.mechanism) for each in deleted]
        await self._users.alter_credentials(name, added, removed, caller=caller, deadline=deadline)
        return ErrorCode.NONE


_TEXTS: Final = {
    ErrorCode.UNSUPPORTED_SASL_MECHANISM: "the mechanism is not SCRAM-SHA-256 (1) or SCRAM-SHA-512 (2)",
    ErrorCode.DUPLICATE_RESOURCE: "a mechanism of this user is named more than once",
}


def _credential(upsertion: Any) -> ScramCredential:
    """Return the SCRAM credential of a request, which has the salted password."""
    return from_salted(
        ScramMechanism(upsertion.mechanism), upsertion.salted_password, upsertion.salt, upsertion.iterations
    )
