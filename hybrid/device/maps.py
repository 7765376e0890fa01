"""The class of each token, kept on the device for the grammars in use.

What: `ClassMaps` is a table with a line for each recently used pair (classes, stop ids). A line has the
number of each token's bit in class masks, as `Follower.fill_by_class` writes them.
When: used by `hybrid.device.gather.DeviceGather`.
Limits: 2 bytes per token and line. A line is reused for another pair only if neither this step nor the last
one used it. So staged masks stay valid, and grammars that take turns do not send lines in each step.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray

from hybrid.values.gather import Gather

Pair: TypeAlias = "tuple[Gather, tuple[int, ...]]"

NO_LINE = -1
"""The pair has no line in the table: too few masks of it were filled so far, or all lines are in use."""

MOST_CLASSES = (1 << 15) - 1
"""The bit of the stop ids follows those of the classes, and its number must fit into an int16."""

MASKS_A_LINE = 16
"""A pair gets a line after this many masks. As whole bitmasks, these took as many bytes as the line, 2 for
each token. So no grammar sends more than twice the bytes of the best choice."""


class ClassMaps:
    """Class maps of one vocabulary on one device.

    Args:
        vocab_size: number of ids.
        device: where the table is.
        n_lines: lines of the table.

    Attributes:
        table: int16[n_lines, V or more]: the number of each token's bit; -1: the token is never allowed.
        step: the number of the current step.
        last_steps: for each line, the step in which it was last used.
        lines: the line of each pair that has one.
        bytes_sent: bytes of the lines that were sent to the device.
    """

    def __init__(self, vocab_size: int, device: torch.device, n_lines: int) -> None:
        # lines begin at multiples of 32 bytes, so that a kernel may load 16 entries at once
        shape = n_lines, -(-vocab_size // 16) * 16
        with torch.inference_mode(False):  # lines may be written outside of that mode
            self.table = torch.full(shape, -1, dtype=torch.int16, device=device)
        self.step = 1
        self.last_steps = np.full(n_lines, -1, np.int64)
        self.lines: dict[Pair, int] = {}
        self.bytes_sent = 0
        self._vocab_size = vocab_size
        self._masks: OrderedDict[Pair, int] = OrderedDict()

    def line(self, gather: Gather, stops: tuple[int, ...]) -> int:
        """Return the line for the class masks of a gather with these stop ids, or `NO_LINE`."""
        pair = (gather, stops)
        line = self.lines.get(pair, NO_LINE)
        if line == NO_LINE:
            masks = self._masks.get(pair, 0)
            if masks < MASKS_A_LINE or (line := self._free_line()) == NO_LINE:
                self._masks[pair] = masks + 1
                self._masks.move_to_end(pair)
                if len(self._masks) > 4 * len(self.table):  # each pair keeps its gather alive
                    self._masks.popitem(last=False)
                return NO_LINE
            bits = bits_of_tokens(gather, stops)
            self.table[line, : self._vocab_size].copy_(torch.from_numpy(bits))
            self.bytes_sent += bits.nbytes
            self.lines[pair] = line
            self._masks.pop(pair, None)
        self.last_steps[line] = self.step
        return line

    def _free_line(self) -> int:
        """Free the least recently used line for another pair and return it; `NO_LINE` if all are in use."""
        line = int(self.last_steps.argmin())
        if self.last_steps[line] >= self.step - 1:
            return NO_LINE
        for pair in [pair for pair, number in self.lines.items() if number == line]:
            del self.lines[pair]
        return line


def bits_of_tokens(gather: Gather, stops: tuple[int, ...]) -> NDArray[np.int16]:
    """Return the number of each token's bit in class masks, int16[V]; -1 for tokens without one.

    Args:
        gather: has at most `MOST_CLASSES` classes.
        stops: the stop ids. They share one bit, whatever their classes are.
    """
    bits = gather.class_of_token().astype(np.int16)
    bits[list(stops)] = gather.n_classes
    return bits
