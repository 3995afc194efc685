"""State of one replica in the model of Raft's rules (`model`), derived from its trace."""

from tests.raft.trace import Line

_NOBODY: Line = {"index": 0, "voters": [], "learners": [], "outgoing": []}
NOT_GIVEN = 1 << 60
"""Number of an entry that no Ready has brought yet."""


class ModelNode:
    """State of one replica in the model."""

    def __init__(self, line: Line) -> None:
        self.term: int = line["term"]
        self.vote: str | None = line["vote"]
        self.role: str = "follower"
        self.commit: int = line["commit"]
        self.boundary: int = line["boundary"][0]
        self.terms: list[int] = [line["boundary"][1], *line["terms"]]
        """Terms of the entries from the boundary on."""
        self.configurations: list[Line] = [_NOBODY, *line["configurations"]]
        self.numbers: list[int] = [0] * len(self.terms)
        """By entry: the Ready that gave it to the disk; a large number before that."""
        self.synced = 0
        self.hard_states: list[tuple[int, int, str | None]] = [(0, self.term, self.vote)]
        """Given to the disk: number, term, vote."""
        self.verified = self.commit
        """Known to agree with the log of this term's leader."""
        self.votes: set[str] = set()
        self.match: dict[str, int] = {}
        self.first_own = 0
        self.waiting: list[tuple[int, str]] = []
        """Messages that wait for a Ready to be synced."""

    @property
    def last(self) -> int:
        return self.boundary + len(self.terms) - 1

    @property
    def durable(self) -> int:
        """Index of the last entry of the longest synced prefix."""
        count = next((at for at, number in enumerate(self.numbers) if number > self.synced), len(self.numbers))
        return self.boundary + count - 1

    @property
    def durable_hard_state(self) -> tuple[int, str | None]:
        return next(hard[1:] for hard in reversed(self.hard_states) if hard[0] <= self.synced)

    @property
    def configuration(self) -> Line:
        return self.configurations[-1]

    def term_at(self, index: int) -> int | None:
        return self.terms[index - self.boundary] if self.boundary <= index <= self.last else None

    def cut_to(self, index: int) -> None:
        del self.terms[index - self.boundary + 1 :]
        del self.numbers[index - self.boundary + 1 :]
        while len(self.configurations) > 1 and self.configuration["index"] > index:
            self.configurations.pop()

    def append(self, term: int, configuration: Line | None) -> None:
        self.terms.append(term)
        self.numbers.append(NOT_GIVEN)
        if configuration is not None:
            self.configurations.append(configuration)

    def new_term(self, term: int, vote: str | None, role: str) -> None:
        self.term, self.vote, self.role = term, vote, role
        self.verified = self.commit
        self.votes, self.match = set(), {}
