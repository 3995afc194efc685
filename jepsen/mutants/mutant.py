"""Change of one function, anchored to its text. Pure."""

import ast
from collections.abc import Iterator
from typing import NamedTuple


class NotApplicable(Exception):
    """The mutant no longer applies: its function or text is missing, or the text occurs more than once."""


class Mutant(NamedTuple):
    """Replacement of `old` by `new` in `function` (`name` or `Class.name`) of `file`, a path from the top of the tree.

    `tests` are arguments of pytest: at least one of them must fail. `equivalent`, if not empty, is a proof that nothing
    can detect the change; such a mutant is expected to survive.
    """

    name: str
    file: str
    function: str
    old: str
    new: str
    tests: tuple[str, ...]
    equivalent: str = ""

    def apply_to(self, source: str) -> str:
        """Return the source of the file with the change; raises `NotApplicable`."""
        begin, end = self._span(source)
        count = source.count(self.old, begin, end)
        if count != 1:
            raise NotApplicable(f"{self.name}: {self.function} in {self.file} has {self.old!r} {count} times, not once")
        changed = source[:begin] + source[begin:end].replace(self.old, self.new) + source[end:]
        try:
            ast.parse(changed)
        except SyntaxError as error:
            raise NotApplicable(f"{self.name}: with {self.new!r} {self.file} is not Python any more: {error}") from None
        return changed

    def _span(self, source: str) -> tuple[int, int]:
        """Return start and end of the function, in characters."""
        found = [node for name, node in _functions(ast.parse(source)) if name == self.function]
        if len(found) != 1:
            raise NotApplicable(f"{self.name}: {self.file} has {len(found)} functions {self.function}, not one")
        lines = source.splitlines(keepends=True)
        first, last = found[0].lineno, found[0].end_lineno
        assert last is not None, "a function without an end"
        begin = sum(map(len, lines[: first - 1]))
        return begin, begin + sum(map(len, lines[first - 1 : last]))


def _functions(tree: ast.Module) -> Iterator[tuple[str, ast.FunctionDef | ast.AsyncFunctionDef]]:
    """Return functions of the module and methods of its classes by name."""
    for node in tree.body:
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            yield node.name, node
        elif isinstance(node, ast.ClassDef):
            for inner in node.body:
                if isinstance(inner, (ast.FunctionDef, ast.AsyncFunctionDef)):
                    yield f"{node.name}.{inner.name}", inner
