"""Terminal that types the blocks of a page into shells and compares the output with the page.

Directory, addresses and environment are its own; everything else is typed as printed. Quantities that differ from run
to run (durations, rates, sizes, times, ids of processes and UUIDs) match any other of their kind, `…` matches any text,
and a block of `text` behind a program is its output.
"""

import os
import re
import selectors
import signal
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path
from typing import Final, Self

from raftlog.testing.ports import reserve_port
from tests.documents.pages import Block

_BASH: Final = ("/usr/bin/env", "--default-signal=INT,QUIT", "/bin/bash")
"""Commands that a test run in the background starts would ignore both signals."""
SECONDS_MAX: Final = 60
_VOLATILE: Final = (
    (re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}"), "UUID"),
    (re.compile(r"\b\d{13}\b"), "MILLISECONDS"),
    (re.compile(r"\d{4}-\d\d-\d\dT[\d:.]+Z"), "TIME"),
    (re.compile(r"127\.0\.0\.1:\d+"), "ADDRESS"),
    (re.compile(r"\bpid \d+"), "pid #"),
    (re.compile(r"[\d,]+ records/s"), "# records/s"),
    (re.compile(r"\b[\d.,]+ (s|ms|B|[kMGT]i?B)\b"), r"# \1"),
    (re.compile(r"[ \t]+"), " "),
)


def remove_volatile(text: str) -> str:
    """Return the text without the parts that differ from run to run."""
    for pattern, stands_for in _VOLATILE:
        text = pattern.sub(stands_for, text)
    return "\n".join(line.strip() for line in text.strip().splitlines())


def is_shown(shown: str, printed: str) -> bool:
    """Return whether the page's text describes the output; a line `…` matches any number of lines."""
    pattern = ""
    for line in remove_volatile(shown).splitlines():
        whole = line == "…"
        pattern += r"(?:.*\n)*?" if whole else ".*?".join(re.escape(part) for part in line.split("…")) + r"\n"
    return re.fullmatch(pattern, remove_volatile(printed) + "\n") is not None


def split_commands(block: str) -> list[tuple[str, str]]:
    """Split a console block into commands, each with the output shown below it."""
    found: list[tuple[str, str]] = []
    for part in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]:
        lines = part.splitlines(keepends=True)
        count = 1
        while lines[count - 1].endswith("\\\n"):
            count += 1
        found.append(("".join(lines[:count]).strip(), "".join(lines[count:])))
    return found


class Terminal:
    """Shells that run blocks in a directory of their own; leaving the `with` block stops running programs."""

    def __init__(self, directory: Path, addresses: dict[str, str], environment: dict[str, str], commands: Path) -> None:
        """Set the directory and the replacements of the page's `addresses`; others get free ports.

        A directory `raftlog` as in a clone is there: programs beside it must not import it instead of the package.
        Programs in `commands` come first in the path of commands that end by themselves.
        """
        self._directory = directory
        self._addresses = dict(addresses)
        self._stack = ExitStack()
        self._running: dict[str, subprocess.Popen[str]] = {}
        self._starting: list[str] = []
        self._printed = ""
        (directory / ".venv").symlink_to(sys.prefix)
        path = f"{directory}/.venv/bin:/usr/local/bin:/usr/bin:/bin"
        base = {"PATH": path, "HOME": str(directory), "LC_ALL": "C.UTF-8", "RAFTLOG_GOSSIP": "off", **environment}
        if "JAVA_HOME" in os.environ:
            base["JAVA_HOME"] = os.environ["JAVA_HOME"]
        (directory / "raftlog").mkdir()
        self._commands = commands
        self._state = directory / ".terminal"
        self._state.write_text("".join(f"export {name}='{value}'\n" for name, value in base.items()))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        try:
            for name in list(self._running):
                self.stop(name)
        finally:
            for process in self._running.values():
                process.kill()
            self._stack.close()

    def type(self, block: Block) -> None:
        """Run the block under its directives."""
        if "stop" in block.directives:
            self.stop(block.directives["stop"])
        if "kill" in block.directives:
            self.stop(block.directives["kill"], signal.SIGQUIT)
        if "not run" in block.directives or not block.text:
            return
        text = self._replace_addresses(block.text)
        if "file" in block.directives:
            (self._directory / block.directives["file"]).write_text(text)
        elif block.language == "ini":
            pass  # a file for another program
        elif "terminal" in block.directives:
            self._start(block.directives["terminal"], text)
        elif block.language == "python":
            self._await_all()
            program = self._directory / "program.py"
            program.write_text(text)
            self._printed = self._run(f"{sys.executable} {program}")
        elif block.language == "text":
            assert is_shown(text, self._printed), f"printed:\n{self._printed}\nshown:\n{text}"
        elif block.language == "console":
            self._await_all()
            for command, shown in split_commands(text):
                self._printed = self._run(command, fails=shown.startswith("error:"))
                if shown.strip():
                    assert is_shown(shown, self._printed), f"{command}\nprinted:\n{self._printed}\nshown:\n{shown}"
        else:
            assert block.language == "sh", f"line {block.line}: no way to run a block of {block.language!r}"
            self._await_all()
            self._printed = self._run(text)

    def stop(self, name: str, how: signal.Signals = signal.SIGINT) -> None:
        """Press Ctrl-C (or Ctrl-\\, which sends SIGQUIT), and wait until the program has exited."""
        process = self._running.pop(name)
        os.killpg(process.pid, how)
        try:
            process.communicate(timeout=SECONDS_MAX)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            raise

    def _start(self, name: str, text: str) -> None:
        """Start a long-running command of a page."""
        script = f"source {self._state}\n{text}"
        lines = script.strip().splitlines()
        lines[-1] = f"exec {lines[-1]}"
        with (self._directory / f"{name}.log").open("w") as log:
            self._running[name] = subprocess.Popen(
                [*_BASH, "-c", "\n".join(lines)], cwd=self._directory, stdout=subprocess.PIPE, stderr=log,
                text=True, start_new_session=True,
            )  # fmt: skip
        self._starting.append(name)

    def _await_all(self) -> None:
        """Wait for the first line of each started program."""
        for name in self._starting:
            output = self._running[name].stdout
            assert output is not None
            with selectors.DefaultSelector() as selector:
                selector.register(output, selectors.EVENT_READ)
                assert selector.select(SECONDS_MAX), f"{name} printed nothing"
            assert output.readline(), f"{name} ended"
        self._starting.clear()

    def _run(self, command: str, *, fails: bool = False) -> str:
        """Run a command of a page and keep the variables that it exports; return its output."""
        begin = f"source {self._state}\nset -a -o pipefail\nPATH={self._commands}:$PATH\n"
        end = f"code=$?\nPATH=${{PATH#*:}}\nexport -p > {self._state}\nexit $code\n"
        script = f"{begin}{command}\n{end}"
        done = subprocess.run(
            [*_BASH, "-c", script], cwd=self._directory, env={}, stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=SECONDS_MAX, check=False,
        )  # fmt: skip
        assert (done.returncode != 0) == fails, f"{command}\nexit code {done.returncode}:\n{done.stdout}"
        return done.stdout

    def _replace_addresses(self, text: str) -> str:
        """Return the text with the page's addresses replaced by free ones of this machine."""

        def replace_address(found: re.Match[str]) -> str:
            shown = found[0]
            if shown not in self._addresses:
                held = self._stack.enter_context(reserve_port())
                self._addresses[shown] = f"127.0.0.1:{held.getsockname()[1]}"
            return self._addresses[shown]

        return re.sub(r"127\.0\.0\.1:\d+", replace_address, text)
