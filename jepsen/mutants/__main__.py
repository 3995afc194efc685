"""`python -m jepsen.mutants`: try mutants, and report those that no test detects."""

import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from queue import SimpleQueue

import click
import orjson
from rich.console import Console
from rich.progress import Progress

from jepsen.mutants.catalogue import MUTANTS
from jepsen.mutants.copies import Copy
from jepsen.mutants.mutant import Mutant
from jepsen.mutants.trial import Outcome, Trial, run_tests, try_mutant

_console = Console(stderr=True, highlight=False)


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.argument("names", nargs=-1)
@click.option("--jobs", type=click.IntRange(min=1), default=2, show_default=True, help="Mutants tried at a time.")
@click.option("--list", "only_list", is_flag=True, help="Print the names, and whether each still applies; run nothing.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object instead of text.")
def main(names: tuple[str, ...], jobs: int, only_list: bool, as_json: bool) -> None:
    """Apply mutants in copies of this tree, and run the tests that should detect each.

    NAMES are beginnings of the names of mutants; without any all are tried, which takes up to an hour on two cores.
    Exit code 1 when one survives without a proof that it changes nothing, is noticed in spite of one, hangs, or does
    not apply any more.
    """
    chosen = [mutant for mutant in MUTANTS if not names or mutant.name.startswith(names)]
    if not chosen:
        raise click.UsageError(f"no mutant is called {' or '.join(names)}; --list shows the names")
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="raftlog-mutants-") as directory:
        copies = [Copy(Path(directory) / str(number)) for number in range(min(jobs, len(chosen)))]
        if only_list:
            _list(chosen, copies[0])
            return
        trials = _run(chosen, copies)
    wrong = [trial for mutant, trial in zip(chosen, trials, strict=True) if not is_as_expected(mutant, trial)]
    _report(trials, wrong, time.monotonic() - began, as_json=as_json)
    sys.exit(bool(wrong))


def is_as_expected(mutant: Mutant, trial: Trial) -> bool:
    """Return whether the mutant was detected, or survived with a proof that nothing can detect it."""
    return trial.outcome is (Outcome.SURVIVED if mutant.equivalent else Outcome.NOTICED)


def _list(chosen: Sequence[Mutant], copy: Copy) -> None:
    """Print the mutants, after a check that each applies."""
    for mutant in chosen:
        mutant.apply_to(copy.read(mutant.file))
        click.echo(f"{mutant.name}  {mutant.file}:{mutant.function}{'  (equivalent)' if mutant.equivalent else ''}")
    click.echo(f"{len(chosen)} mutants; all apply")


def _run(chosen: Sequence[Mutant], copies: Sequence[Copy]) -> list[Trial]:
    """Run the tests without a mutant, where they must pass, and then with each mutant."""
    free: SimpleQueue[Copy] = SimpleQueue()
    for copy in copies:
        free.put(copy)
    paths = list(dict.fromkeys(path for mutant in chosen for path in mutant.tests))

    def run_in_free_copy(work: Callable[[Copy], Trial]) -> Trial:
        """Run `work` in a copy of the tree that no other thread uses."""
        copy = free.get()
        try:
            return work(copy)
        finally:
            free.put(copy)

    with ThreadPoolExecutor(len(copies)) as pool, Progress(console=_console) as progress:
        sound = pool.map(lambda path: run_in_free_copy(lambda copy: run_tests(path, (path,), copy)), paths)
        for trial in _show_progress(sound, progress, "without mutants", len(paths)):
            if trial.outcome is not Outcome.SURVIVED:
                raise click.ClickException(f"tests fail without any mutant ({trial.name}):\n{trial.detail}")
        trials = pool.map(lambda mutant: run_in_free_copy(lambda copy: try_mutant(mutant, copy)), chosen)
        return list(_show_progress(trials, progress, "mutants", len(chosen)))


def _show_progress(trials: Iterable[Trial], progress: Progress, description: str, count: int) -> Iterable[Trial]:
    """Yield the trials unchanged, and show the progress bar; print trials without a clear outcome."""
    task = progress.add_task(description, total=count)
    for trial in trials:
        progress.advance(task)
        if trial.outcome not in (Outcome.NOTICED, Outcome.SURVIVED) or not _console.is_terminal:
            progress.console.print(f"{trial.name}: {trial.outcome.value}, {trial.seconds:.1f} s")
        yield trial


def _report(trials: Sequence[Trial], wrong: Sequence[Trial], seconds: float, *, as_json: bool) -> None:
    """Print the summary and the unexpected trials (`wrong`), as text or JSON."""
    if as_json:
        rows = [{"name": each.name, "outcome": each.outcome.value, "seconds": each.seconds} for each in trials]
        click.echo(orjson.dumps({"trials": rows, "unexpected": [each.name for each in wrong], "seconds": seconds}))
        return
    for each in wrong:
        click.echo(f"{each.name}: {each.outcome.value}\n{each.detail}\n")
    noticed = sum(each.outcome is Outcome.NOTICED for each in trials)
    click.echo(f"{len(trials)} mutants, {noticed} noticed, {len(wrong)} not as expected; {seconds / 60:.1f} min")


if __name__ == "__main__":
    main()
