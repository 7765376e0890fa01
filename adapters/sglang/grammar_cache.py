"""The cache of grammars that SGLang searches before it compiles.

What: `GrammarCache` replaces the unbounded dict of SGLang's backends. It is bounded in bytes, and drops the
least recently used grammars first. Failures that may not happen again are not kept.
When: one for each backend, used only in the scheduler's loop.
Limits: the ranks of one model must find the same keys, or their queues of requests differ and they wait for
each other forever. They make the same calls in the same order. So nothing here may use a clock, and `size_of`
must give the same result on all of them.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterator, MutableMapping
from typing import Any

Key = tuple[str, str]


class GrammarCache(MutableMapping[Key, Any]):
    """A bounded mapping from requests to grammars.

    Args:
        limit: bound of the bytes of all entries; one entry is always kept.
        size_of: the bytes of an entry. It is called whenever an entry is stored or found, because grammars
            grow.
        is_final: whether the next request would get the same result.
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
        """Return the grammar, which now counts as used. SGLang's backends call this."""
        if key not in self._entries:
            return default
        value = self._entries[key][0]
        self._put(key, value)
        return value

    def __getitem__(self, key: Key) -> Any:
        return self._entries[key][0]

    def __setitem__(self, key: Key, value: Any) -> None:
        if self._is_final(value):
            self._put(key, value)
        elif key in self._entries:
            del self[key]

    def __delitem__(self, key: Key) -> None:
        self.bytes -= self._entries.pop(key)[1]

    def __iter__(self) -> Iterator[Key]:
        return iter(self._entries)

    def __len__(self) -> int:
        return len(self._entries)

    def _put(self, key: Key, value: Any) -> None:
        size = self._size_of(key, value)
        self.bytes += size - self._entries.pop(key, (None, 0))[1]
        self._entries[key] = value, size  # as the last one
        while self.bytes > self.limit and len(self._entries) > 1:
            _, (_, evicted) = self._entries.popitem(last=False)
            self.bytes -= evicted
