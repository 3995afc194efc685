"""Choice of a client's adapter by the name of its library. Libraries are imported only when used."""

from collections.abc import Callable

from jepsen.workloads.adapters.http import HttpAdapter
from jepsen.workloads.adapters.http_transactions import HttpTransactions
from jepsen.workloads.adapters.kafka import KafkaAdapter
from jepsen.workloads.adapters.library import KafkaLibrary
from jepsen.workloads.adapters.port import Adapter
from jepsen.workloads.adapters.transactional import TransactionalLibrary
from jepsen.workloads.client.access import Access
from jepsen.workloads.client.configuration import ClientConfiguration
from jepsen.workloads.roles.load_share import LoadShare


def choose_adapter(config: ClientConfiguration, access: Access) -> Callable[[LoadShare], Adapter]:
    """Return the constructor of the adapter for the client's library."""
    if config.client == "http":
        return lambda share: HttpAdapter(list(config.addresses.values()), access, share)
    return lambda share: KafkaAdapter(_library(config), sorted(config.kafka), share)


def _library(config: ClientConfiguration) -> KafkaLibrary:
    """Return the Kafka client library that the configuration names; import only this one."""
    bootstrap = ",".join(config.kafka.values())
    if config.client in ("librdkafka", "java"):  # the Java adapter has only transactions
        from jepsen.workloads.adapters.librdkafka import Librdkafka

        return Librdkafka(bootstrap)
    from jepsen.workloads.adapters.aio import Aiokafka

    return Aiokafka(bootstrap)


def choose_transactions(config: ClientConfiguration) -> TransactionalLibrary:
    """Return the transactions of the client's library."""
    if config.client == "http":
        return HttpTransactions(list(config.addresses.values()))
    bootstrap = ",".join(config.kafka.values())
    if config.client == "librdkafka":
        from jepsen.workloads.adapters.librdkafka_transactions import LibrdkafkaTransactions

        return LibrdkafkaTransactions(bootstrap)
    if config.client == "java":
        from jepsen.workloads.adapters.java_transactions import JavaTransactions

        return JavaTransactions(bootstrap)
    from jepsen.workloads.adapters.aio_transactions import AioTransactions

    return AioTransactions(bootstrap)
