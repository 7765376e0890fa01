"""What a comparison with plain XGrammar found: disagreements, counts and times.

What: the records that `hybrid.testing.verify` fills and that benchmarks and tests read and add up.
When: on every comparison; `Comparison.exact` is the verdict.
Limits: of each kind the first `KEEP` disagreements are kept; the counts are complete.
"""

from __future__ import annotations

from array import array
from dataclasses import dataclass, field

KEEP = 1000
"""Disagreements kept of each kind in one `Comparison`; the counts go on beyond it."""


@dataclass(frozen=True)
class Disagreement:
    """One bit, or one answer, in which the two sides are not alike.

    Attributes:
        kind: ``"mask"`` (a bit), ``"accept"`` (the answer of ``accept_token``), ``"terminated"``,
            ``"need_apply"`` (``fill`` says that the mask need not be applied, but it forbids something)
            or ``"error"`` (our side raised).
        step: number of tokens accepted before, since the start of this run.
        token_id: the token in question, -1 where none is.
        token: its bytes.
        prefix: the ids accepted since the matcher was last at its start: enough to come here again.
        text: the last bytes of that prefix.
        ours, plain: what the two sides said.
        accepted: what ``accept_token`` of the plain matcher says; None where it was not asked.
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


def _seconds() -> array[float]:
    return array("d")


@dataclass
class Times:
    """Seconds of every call, in the order of the calls; `numpy.asarray` reads them."""

    fill: array[float] = field(default_factory=_seconds)
    plain_fill: array[float] = field(default_factory=_seconds)
    accept: array[float] = field(default_factory=_seconds)
    plain_accept: array[float] = field(default_factory=_seconds)

    def extend(self, other: Times) -> None:
        self.fill.extend(other.fill)
        self.plain_fill.extend(other.plain_fill)
        self.accept.extend(other.accept)
        self.plain_accept.extend(other.plain_accept)


@dataclass
class Comparison:
    """The outcome of one comparison, or of many added up with `add`.

    Attributes:
        masks: masks compared.
        equal: those that were equal in every bit.
        accepted: tokens that both sides accepted.
        complete: the whole sequence was accepted (a walk: it could always go on).
        contradictions: bits where XGrammar's mask is not what its ``accept_token`` says, and ours is.
        differences: everything else that is not alike; there should be none.
        shared_errors: tokens of a walk allowed by both masks that ``accept_token`` of XGrammar refuses.
        contradiction_count, difference_count: full counts (the lists keep the first `KEEP`).
        contradicted_masks, different_masks: masks with at least one such bit.
        times: seconds of each call of both sides.
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
        """No difference was found; contradictions are XGrammar's own and do not count."""
        return self.difference_count == 0

    def add(self, other: Comparison) -> None:
        """Adds the outcome of another comparison to this one."""
        self.masks += other.masks
        self.equal += other.equal
        self.accepted += other.accepted
        self.complete = self.complete and other.complete
        self.contradiction_count += other.contradiction_count
        self.difference_count += other.difference_count
        self.contradicted_masks += other.contradicted_masks
        self.different_masks += other.different_masks
        for mine, theirs in (
            (self.contradictions, other.contradictions),
            (self.differences, other.differences),
            (self.shared_errors, other.shared_errors),
        ):
            mine.extend(theirs[: max(0, KEEP - len(mine))])
        self.times.extend(other.times)

    def __str__(self) -> str:
        return (
            f"{self.masks} masks compared, {self.equal} equal, {self.contradiction_count} contradictions of "
            f"XGrammar in {self.contradicted_masks} masks, {self.difference_count} differences"
        )
