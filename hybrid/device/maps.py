"""Which class each token has, kept on the device for the grammars that are in use.

What: a `ClassMaps` is one table with a line for each of the last pairs of (classes, stop ids): the number of
each token's bit in masks by class, as `Follower.fill_by_class` writes them.
When: behind `hybrid.device.gather.DeviceGather`.
Limits: 2 bytes a token and line. A line goes to another pair only if neither this step nor the last one asked
for it, so that what was staged stays true, and grammars that take turns do not send lines at each step.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray

from hybrid.classifier.rows import Rows
from hybrid.values.gather import Gather

Pair: TypeAlias = "tuple[Gather, tuple[int, ...]]"

NO_LINE = -1
"""The table has none for the pair: it is asked for too seldom as yet, or the lines are in use."""

MOST_CLASSES = (1 << 15) - 1
"""The stop ids' bit follows those of classes, and its number is an int16."""

MASKS_A_LINE = 16
"""Masks after which a pair gets a line: as whole bitmasks they took as many bytes as it takes, 2 for each
token, so that no grammar sends more than twice what was best for it."""


class ClassMaps:
    """Class maps of one vocabulary on one device.

    Args:
        vocab_size: number of ids.
        device: where the table is.
        n_lines: lines of the table.

    Attributes:
        table: int16[n_lines, V or more]: the number of each token's bit; -1: the token is never allowed.
        step, last_steps: the number of the step, and of that in which each line was last asked for.
        known: lines by (rows of a session by class, stop ids), for who knows these; some of those there are.
        bytes_sent: bytes of the lines that were sent to the device.
    """

    def __init__(self, vocab_size: int, device: torch.device, n_lines: int) -> None:
        # lines begin at multiples of 32 bytes, so that a kernel may load 16 at once
        self.table = torch.full((n_lines, -(-vocab_size // 16) * 16), -1, dtype=torch.int16, device=device)
        self.step = 1
        self.last_steps = np.full(n_lines, -1, np.int64)
        self.known: dict[tuple[Rows, tuple[int, ...]], int] = {}
        self.bytes_sent = 0
        self._vocab_size = vocab_size
        self._pairs: list[Pair | None] = [None] * n_lines
        self._lines: dict[Pair, int] = {}
        self._masks: OrderedDict[Pair, int] = OrderedDict()

    def line(self, gather: Gather, stops: tuple[int, ...]) -> int:
        """The line for masks by class that a gather expands, with these stop ids; or `NO_LINE`."""
        pair = (gather, stops)
        line = self._lines.get(pair, NO_LINE)
        if line == NO_LINE:
            masks = self._masks.get(pair, 0)
            if masks < MASKS_A_LINE or (line := self._free_line()) == NO_LINE:
                self._masks[pair] = masks + 1
                self._masks.move_to_end(pair)
                if len(self._masks) > 4 * len(self._pairs):  # each keeps its gather in memory
                    self._masks.popitem(last=False)
                return NO_LINE
            bits = bits_of_tokens(gather, stops)
            self.table[line, : self._vocab_size].copy_(torch.from_numpy(bits))
            self.bytes_sent += bits.nbytes
            self._pairs[line], self._lines[pair] = pair, line
            self._masks.pop(pair, None)
        self.last_steps[line] = self.step
        return line

    def know(self, rows: Rows, stops: tuple[int, ...], line: int) -> None:
        """Note the line of masks that a session has by class."""
        if len(self.known) > 4 * len(self._pairs):  # of sessions that are over, too
            self.known.clear()
        self.known[rows, stops] = line

    def _free_line(self) -> int:
        """A line for another pair: the one that was not asked for for longest."""
        line = int(self.last_steps.argmin())
        if self.last_steps[line] >= self.step - 1:
            return NO_LINE
        pair = self._pairs[line]
        if pair is not None:
            self.known.clear()
            self._pairs[line] = None
            del self._lines[pair]
        return line


def bits_of_tokens(gather: Gather, stops: tuple[int, ...]) -> NDArray[np.int16]:
    """int16[V]: the number of each token's bit in masks by class, -1 where it has none.

    Args:
        gather: of at most `MOST_CLASSES` classes.
        stops: the stop ids, which have one bit, whatever their classes.
    """
    bits = gather.class_of_token().astype(np.int16)
    bits[list(stops)] = gather.n_classes
    return bits
