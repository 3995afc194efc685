"""Topics, groups and partitions of a wrong type are refused with a hint, before any request."""

from typing import Any

import pytest

from raftlog.client import BrokerClient, Consumer, Producer
from raftlog.client.calls import quote_segment
from raftlog.client.topic_names import check_names
from raftlog.errors import InvalidArgument

WRONG = [
    (b"orders", r"topic is bytes b'orders', not a str; decode it \(topic.decode\(\)\)"),
    (["orders"], r"topic is list \['orders'\], not a str; give each as an argument of its own"),
    (5, "topic is int 5, not a str; give the topic's name"),
    (None, "topic is NoneType None, not a str"),
]


@pytest.mark.parametrize(("topic", "message"), WRONG)
async def test_a_topic_that_is_not_a_str_is_refused(topic: Any, message: str) -> None:
    with pytest.raises(InvalidArgument, match=message):
        Consumer("127.0.0.1:1", topic)
    async with BrokerClient("127.0.0.1:1") as client, Producer("127.0.0.1:1", idempotent=False) as producer:
        for call in (client.describe_topic(topic), client.fetch_batches(topic, 0, 0), client.create_topic(topic)):
            with pytest.raises(InvalidArgument, match="topic is"):
                await call
        if type(topic) is not list:
            with pytest.raises(InvalidArgument, match=message):
                await producer.send(topic, b"v")


async def test_name_that_utf8_cannot_encode_is_refused() -> None:
    message = r"'\\udcff' is not text that UTF-8 can encode"
    async with BrokerClient("127.0.0.1:1") as client, Producer("127.0.0.1:1", idempotent=False) as producer:
        for call in (client.describe_topic("\udcff"), client.groups.committed("\udcff"), producer.send("\udcff", b"v")):
            with pytest.raises(InvalidArgument, match=message):
                await call


def test_one_str_is_one_topic() -> None:
    assert check_names("orders") == ("orders",)
    assert check_names(["b", "a", "b"]) == ("b", "a")
    with pytest.raises(InvalidArgument, match="group is bytes"):
        quote_segment(b"g", "group")  # type: ignore[arg-type]
