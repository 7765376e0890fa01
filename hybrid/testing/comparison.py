"""The result of a comparison with plain XGrammar: disagreements, counts and times.

What: the records that `hybrid.testing.mask_comparison` fills, and that benchmarks and tests read and add up.
When: for every comparison; `Comparison.exact` is the verdict.
Limits: only the first `KEEP` disagreements of each kind are kept; the counts are complete.
"""

from __future__ import annotations

from array import array
from dataclasses import dataclass, field

KEEP = 1000
"""Most disagreements of each kind that one `Comparison` keeps; the counts have no bound."""


@dataclass(frozen=True)
class Disagreement:
    """One bit, or one answer, in which the two sides differ.

    Attributes:
        kind: ``"mask"`` (a bit), ``"accept"`` (the answer of ``accept_token``), ``"terminated"``,
            ``"need_apply"`` (``fill`` says that the mask need not be applied, but it forbids something) or
            ``"error"`` (our side raised an error).
        step: number of tokens accepted before, since the start of this run.
        token_id: the token in question; -1 if there is none.
        token: its bytes.
        prefix: the ids accepted since the matcher was last at its start; they lead to this place again.
        text: the last bytes of that prefix.
        ours, plain: the results of the two sides.
        accepted: the answer of ``accept_token`` of the plain matcher; None if it was not asked.
        note: the exception, for ``"error"``.
    """

    kind: str
    step: int
    token_id: int
    token: bytes
    prefix: tuple[int, ...]
    text: bytes
    ours: bool
    plain: bool
    accepted: bool | None = None
    note: str = ""

    def __str__(self) -> str:
        asked = "" if self.accepted is None else f", accept_token {self.accepted}"
        return (
            f"{self.kind} at step {self.step} after {self.text!r}: token {self.token_id} {self.token!r} "
            f"ours {self.ours}, XGrammar {self.plain}{asked}{' ' + self.note if self.note else ''}"
        )


class Times:
    """The seconds of each call, in the order of the calls; `numpy.asarray` reads them."""

    def __init__(self) -> None:
        self.fill, self.plain_fill = array("d"), array("d")
        self.accept, self.plain_accept = array("d"), array("d")

    def extend(self, other: Times) -> None:
        for name, seconds in vars(other).items():
            getattr(self, name).extend(seconds)


@dataclass
class Comparison:
    """The outcome of one comparison, or of many added up with `add`.

    Attributes:
        masks: masks compared.
        equal: those that were equal in every bit.
        accepted: tokens that both sides accepted.
        complete: whether the whole sequence was accepted; for a walk, whether it never had to stop.
        contradictions: bits in which XGrammar's mask contradicts its own ``accept_token``, and ours agrees
            with it.
        differences: all other disagreements; there should be none.
        shared_errors: tokens of a walk that both masks allow and ``accept_token`` of XGrammar refuses.
        contradiction_count, difference_count: complete counts (the lists keep the first `KEEP`).
        contradicted_masks, different_masks: number of masks with at least one such bit.
        times: the seconds of each call of both sides.
    """

    masks: int = 0
    equal: int = 0
    accepted: int = 0
    complete: bool = True
    contradictions: list[Disagreement] = field(default_factory=list)
    differences: list[Disagreement] = field(default_factory=list)
    shared_errors: list[Disagreement] = field(default_factory=list)
    contradiction_count: int = 0
    difference_count: int = 0
    contradicted_masks: int = 0
    different_masks: int = 0
    times: Times = field(default_factory=Times)

    @property
    def exact(self) -> bool:
        """Whether no difference was found. Contradictions do not count, because they are XGrammar's own."""
        return self.difference_count == 0

    def add(self, other: Comparison) -> None:
        """Add the outcome of another comparison to this one."""
        for name, theirs in vars(other).items():
            mine = getattr(self, name)
            if isinstance(theirs, Times):
                mine.extend(theirs)
            elif isinstance(theirs, list):
                mine.extend(theirs[: max(0, KEEP - len(mine))])
            else:
                setattr(self, name, mine and theirs if isinstance(mine, bool) else mine + theirs)

    def __str__(self) -> str:
        return (
            f"{self.masks} masks compared, {self.equal} equal, {self.contradiction_count} contradictions of "
            f"XGrammar in {self.contradicted_masks} masks, {self.difference_count} differences"
        )
