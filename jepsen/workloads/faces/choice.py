"""Choice of a client's face by the name of its library. Libraries are imported only when used."""

from collections.abc import Callable

from jepsen.workloads.client.access import Access
from jepsen.workloads.client.configuration import ClientConfiguration
from jepsen.workloads.faces.http import HttpFace
from jepsen.workloads.faces.kafka import KafkaFace
from jepsen.workloads.faces.library import KafkaLibrary
from jepsen.workloads.faces.port import Face
from jepsen.workloads.roles.load_share import LoadShare


def face_for(config: ClientConfiguration, access: Access) -> Callable[[LoadShare], Face]:
    """Return the constructor of the face."""
    if config.client == "http":
        return lambda share: HttpFace(list(config.addresses.values()), access, share)
    return lambda share: KafkaFace(_library(config), sorted(config.kafka), share)


def _library(config: ClientConfiguration) -> KafkaLibrary:
    bootstrap = ",".join(config.kafka.values())
    if config.client == "librdkafka":
        from jepsen.workloads.faces.librdkafka import Librdkafka

        return Librdkafka(bootstrap)
    from jepsen.workloads.faces.aio import Aiokafka

    return Aiokafka(bootstrap)
