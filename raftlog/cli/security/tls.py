"""`raftlog tls create`: a private certificate authority, and its certificates for brokers and clients."""

import click
import orjson

from raftlog.cli.options import json_option, option
from raftlog.cli.serve.workers import WORKERS_MAX, worker_ids
from raftlog.security.authority import CERTIFICATE_DAYS, DAYS_MAX, NODE_ID_MAX, IssuedCertificate, PrivateAuthority


@click.group()
def tls() -> None:
    """Create certificates."""


@tls.command()
@click.argument("directory", metavar="DIR", type=click.Path(file_okay=False))
@option("--node", "nodes", type=click.IntRange(0, NODE_ID_MAX), multiple=True, metavar="N", help="Node id of a broker.")
@option(
    "--host",
    "hosts",
    multiple=True,
    metavar="NAME",
    help="Name or address at which clients and brokers connect to these brokers, besides 127.0.0.1, ::1 and localhost.",
)
@option("--client", "clients", multiple=True, metavar="NAME", help="Name of a client; its principal is CN=NAME.")
@option(
    "--workers",
    type=click.IntRange(1, WORKERS_MAX),
    default=1,
    help="Worker processes of each node (`serve --workers`), which share its certificate.",
)
@option(
    "--days",
    type=click.IntRange(1, DAYS_MAX),
    default=CERTIFICATE_DAYS,
    help="Days until the certificates of brokers and clients expire.",
)
@json_option("Print a JSON object with the paths of all files.")
def create(
    directory: str,
    nodes: tuple[int, ...],
    hosts: tuple[str, ...],
    clients: tuple[str, ...],
    workers: int,
    days: int,
    as_json: bool,
) -> None:
    """Issue a certificate for each --node and --client in DIR, by the authority there; create the authority first.

    --node, --host and --client may be repeated. Existing files are never replaced."""
    if hosts and not nodes:
        raise click.UsageError("--host is for the certificates of brokers: give --node N as well")
    authority = PrivateAuthority(directory)
    issued = authority.issue(nodes, hosts, clients, days, lambda node: worker_ids(node, workers))
    if not authority.is_new and not issued:
        raise click.UsageError(f"{directory} has an authority already: give --node N or --client NAME to issue more")
    if as_json:
        click.echo(
            orjson.dumps(
                {
                    "authority": authority.certificate,
                    "authority_key": authority.key,
                    "nodes": [
                        {"node": node, **_describe_issued(each)}
                        for node, each in zip(dict.fromkeys(nodes), issued, strict=False)
                    ],
                    "clients": [_describe_issued(each) for each in issued[len(dict.fromkeys(nodes)) :]],
                }
            )
        )
        return
    if authority.is_new:
        click.echo(f"authority {authority.certificate}; keep {authority.key} secret and off the brokers")
    for each in issued:
        names = f" for {', '.join(each.names)}" if each.names else ""
        click.echo(f"{each.subject}: {each.certificate}, {each.key}{names}, until {each.expires:%Y-%m-%d}")


def _describe_issued(issued: IssuedCertificate) -> dict[str, object]:
    """Return the properties of an issued certificate."""
    return {
        "subject": issued.subject,
        "certificate": issued.certificate,
        "key": issued.key,
        "names": issued.names,
        "expires": issued.expires,
    }
