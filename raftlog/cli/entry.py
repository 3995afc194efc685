"""Root of the command: its verbs, and the conversion of errors to one line and an exit code."""

import os
import sys
from typing import NoReturn

import click

from raftlog.cli.lazy import LazyGroup, OutputClosed, Verb
from raftlog.cli.outcome import EXIT_FAILED, CommandFailed, exit_code_of, print_error
from raftlog.errors import RaftlogError

VERBS = {
    "serve": Verb("serve.verb:serve", "Run a broker."),
    "dev": Verb("dev.verb:dev", "Run a cluster on this machine."),
    "demo": Verb("dev.demo:demo", "Run a cluster, kill its leader, and check that nothing is lost."),
    "topic": Verb("topic.verbs:topic", "Create, list, describe, alter, trim and delete topics."),
    "produce": Verb("produce.verb:produce", "Write lines, JSON lines or files to a topic."),
    "consume": Verb("consume.verb:consume", "Print the records of a topic."),
    "transaction": Verb("transaction.verbs:transaction", "Show transactions, and abort those that hang."),
    "group": Verb("group.verbs:group", "Show consumer groups, and change their committed offsets."),
    "bench": Verb("bench:bench", "Put load on a cluster, and show rates, latencies and availability."),
    "cluster": Verb("cluster.verbs:cluster", "Show a cluster and its health, and change cluster-wide settings."),
    "broker": Verb("broker.verbs:broker", "Show brokers, and take them out of the cluster: for a while, or for good."),
    "partition": Verb("partition.verbs:partition", "Show, move and recover partitions, and transfer their leadership."),
    "backup": Verb("backup.backup:backup", "Save topics and groups in a directory or an S3 bucket."),
    "restore": Verb("backup.restore:restore", "Restore topics and groups from a backup, at the same offsets."),
    "config": Verb("config.verbs:config", "Check the configuration of a broker."),
    "doctor": Verb("doctor.verb:doctor", "Check this machine: disk, limits, clock, ports and certificates."),
    "user": Verb("security.users:user", "Create, list and delete users, and change their passwords."),
    "acl": Verb("security.acls:acl", "Create, list and delete entries of the access control list."),
    "quota": Verb("security.quotas:quota", "Set, list and delete client quotas."),
    "tls": Verb("security.tls:tls", "Create certificates of brokers and clients, and their authority."),
    "pipeline": Verb("pipeline.verbs:pipeline", "Archive, replay and check logs of any size, on Spark."),
    "generate": Verb("monitoring.verbs:generate", "Generate configuration for Prometheus and Grafana."),
    "trace": Verb("trace.verb:trace", "Show the durations of the steps of produce requests."),
    "maelstrom": Verb("maelstrom:maelstrom", "Run a node of a Jepsen Maelstrom test on stdin and stdout."),
    "log": Verb("log.verbs:log", "Dump, verify and recover log files; no broker is needed."),
}


def _find_version() -> str:
    from_root = sys.modules["raftlog"].__version__
    return str(from_root)


@click.group(
    cls=LazyGroup,
    verbs=VERBS,
    context_settings={"auto_envvar_prefix": "RAFTLOG", "help_option_names": ["-h", "--help"], "max_content_width": 110},
)
@click.version_option(_find_version(), prog_name="raftlog")
def raftlog() -> None:
    """Run and use raftlog, a durable, replicated log on HTTP: one process is complete, three are a cluster.

    Every flag can be set in the environment; `raftlog VERB --help` shows its variable and default.
    Exit codes: 0 success, 1 failed, 2 wrong command line, 3 the operation may or may not have happened."""


def main() -> NoReturn:
    """Run the command line and exit. Operating errors are one line on stderr; a traceback is a defect."""
    _open_standard_streams()
    try:
        code = raftlog.main(prog_name="raftlog", standalone_mode=False) or 0
    except click.UsageError as error:
        print_error(f"{_describe_usage_error(error)} (see {_help_command(error)})")
        code = error.exit_code
    except click.ClickException as error:
        print_error(error.format_message())
        code = error.exit_code
    except click.exceptions.Exit as error:
        code = error.exit_code
    except (KeyboardInterrupt, click.Abort):
        print_error("interrupted")
        code = EXIT_FAILED
    except CommandFailed as error:
        print_error(str(error))
        code = error.exit_code
    except RaftlogError as error:
        print_error(str(error))
        code = exit_code_of(error)
    except OutputClosed:
        # A reader may close the pipe at any time. Python would report it again when it closes stdout.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        code = 0
    except OSError as error:
        print_error(f"{error.filename}: {error.strerror}" if error.filename else str(error))
        code = EXIT_FAILED
    sys.exit(code)


def _open_standard_streams() -> None:
    """Open `/dev/null` in place of a closed stdin, stdout or stderr.

    Python has no stream object for a closed descriptor, and the next file or socket would get its number: messages of
    libraries and child processes would then go into a segment file."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            stream = open(os.devnull, mode)  # noqa: SIM115 - open as long as the process; gets the lowest free number
            os.set_inheritable(stream.fileno(), True)
            setattr(sys, name, stream)


def _describe_usage_error(error: click.UsageError) -> str:
    """Return the text of a usage error; for a missing verb, list the verbs."""
    if isinstance(error, click.exceptions.NoArgsIsHelpError) and isinstance(error.ctx.command, click.Group):
        return f"{error.ctx.command_path} needs a verb: {', '.join(error.ctx.command.list_commands(error.ctx))}"
    return error.format_message().removesuffix(".")


def _help_command(error: click.UsageError) -> str:
    """Return the command that shows help about the failed command."""
    path = error.ctx.command_path if error.ctx is not None else "raftlog"
    return f"{path} --help"
