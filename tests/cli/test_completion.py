"""Completion in shells, as docs/CLI.md describes it."""

import pytest

from raftlog.cli.entry import VERBS


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_each_shell_gets_its_script(run, shell: str) -> None:
    script = run(env={"_RAFTLOG_COMPLETE": f"{shell}_source"}).stdout.decode()
    assert f"_RAFTLOG_COMPLETE={shell}_complete" in script


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("raftlog ", set(VERBS)),
        ("raftlog to", {"topic"}),
        ("raftlog topic cre", {"create"}),
        ("raftlog serve --sync-m", {"--sync-method"}),
        ("raftlog serve --sync-method a", {"auto", "aio"}),
    ],
)
def test_verbs_flags_and_choices_are_completed(run, words: str, expected: set[str]) -> None:
    count = len(words.split(" ")) - 1
    variables = {"_RAFTLOG_COMPLETE": "bash_complete", "COMP_WORDS": words, "COMP_CWORD": str(count)}
    lines = run(env=variables).stdout.decode().split()
    assert {line.partition(",")[2] for line in lines} == expected
