"""Numbers with which a `raftlog dev` directory was created: a later start must use the same addresses."""

from pathlib import Path
from typing import Final

import orjson

from raftlog.cli.outcome import CommandFailed

FILE_NAME: Final = "dev.json"


def check_plan(directory: Path, *, secure: bool = False, **numbers: int) -> None:
    """Store the plan (`numbers` and `secure`) at the first start; later raise `CommandFailed` if it differs."""
    file, plan = directory / FILE_NAME, {**numbers, **({"secure": True} if secure else {})}
    try:
        made_for = orjson.loads(file.read_bytes())
    except FileNotFoundError:
        file.write_bytes(orjson.dumps(plan) + b"\n")
        return
    except orjson.JSONDecodeError:
        raise CommandFailed(f"{file} cannot be read; remove it to start the cluster with new flags") from None
    if made_for != plan:
        flags = " ".join(
            f"--{name.replace('_', '-')}{'' if value is True else f' {value}'}" for name, value in made_for.items()
        )
        raise CommandFailed(
            f"{directory} was created with {flags}, which set the addresses of its nodes: "
            "give the same flags, or another --data-dir"
        )
