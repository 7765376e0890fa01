"""Grammars of former requests: those that SGLang looks up before it compiles.

What: `Kept` stands where SGLang's backends have a dict without a bound, and holds at most so many bytes, the
least recently used out first. Failures that may end otherwise next time are not kept.
When: one for each backend; in the scheduler's loop only.
Limits: ranks of one model must find the same keys, or their queues of requests differ and they wait for each
other for ever. They make the same calls in the same order, so nothing here may look at a clock, and `size_of`
has to say the same on all of them.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterator, MutableMapping
from typing import Any

Key = tuple[str, str]


class Kept(MutableMapping[Key, Any]):
    """A bounded mapping from what a request asks for to its grammar.

    Args:
        limit: bytes of all entries; one is kept in any case.
        size_of: bytes of an entry, asked for whenever it is stored or found, as grammars grow in use.
        is_final: whether the next request would get the same.
    """

    def __init__(
        self, limit: int, size_of: Callable[[Key, Any], int], is_final: Callable[[Any], bool]
    ) -> None:
        self.limit = limit
        self.bytes = 0
        self._size_of = size_of
        self._is_final = is_final
        self._entries: OrderedDict[Key, tuple[Any, int]] = OrderedDict()

    def get(self, key: Key, default: Any = None) -> Any:
        """The grammar, which counts as used; this is how SGLang's backends look it up."""
        if key not in self._entries:
            return default
        value, size = self._entries[key]
        self._put(key, value, size)
        return value

    def __getitem__(self, key: Key) -> Any:
        return self._entries[key][0]

    def __setitem__(self, key: Key, value: Any) -> None:
        size = self._entries[key][1] if key in self._entries else 0
        if self._is_final(value):
            self._put(key, value, size)
        elif key in self._entries:
            del self[key]

    def __delitem__(self, key: Key) -> None:
        self.bytes -= self._entries.pop(key)[1]

    def __iter__(self) -> Iterator[Key]:
        return iter(self._entries)

    def __len__(self) -> int:
        return len(self._entries)

    def __contains__(self, key: object) -> bool:
        return key in self._entries

    def _put(self, key: Key, value: Any, size_before: int) -> None:
        size = self._size_of(key, value)
        self._entries[key] = value, size
        self._entries.move_to_end(key)
        self.bytes += size - size_before
        while self.bytes > self.limit and len(self._entries) > 1:
            _, (_, gone) = self._entries.popitem(last=False)
            self.bytes -= gone
