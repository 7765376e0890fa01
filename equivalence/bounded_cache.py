"""Caches of results of any size, which together are bounded by bytes.

What: `cached` is `functools.lru_cache` for functions whose arguments or results may be large. When what all
such functions were asked and have made is more than `LIMIT_BYTES`, all their caches begin anew.
When: for parts of grammars that the next grammar may have, too, such as automata of patterns.
Limits: sizes are estimated when a result is made. Threads that add at once may lose a size.

A hit takes no longer than with `lru_cache`: only new results are counted.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from functools import lru_cache, update_wrapper
from typing import Any, TypeVar

LIMIT_BYTES = 64 << 20
"""600 schemas of a corpus need a fifth of it."""

Result = TypeVar("Result")

_caches: list[Any] = []
_n_bytes = 0  # of all results since the caches began


def cached(maxsize: int) -> Callable[[Callable[..., Result]], functools._lru_cache_wrapper[Result]]:
    """Return a decorator that keeps the last `maxsize` results of a function, and fewer if they are large."""

    def decorated(function: Callable[..., Result]) -> functools._lru_cache_wrapper[Result]:
        @lru_cache(maxsize=maxsize)
        def result(*arguments: Any) -> Result:
            found = function(*arguments)
            _count(size_of(arguments) + size_of(found))
            return found

        update_wrapper(result, function)
        _caches.append(result)
        return result

    return decorated


def size_of(value: Any) -> int:
    """About how many bytes a value has; parts that occur in several values count in each."""
    n_bytes = getattr(value, "nbytes", None)
    if n_bytes is not None:
        return int(n_bytes)
    size = sys.getsizeof(value)
    if isinstance(value, (tuple, list, frozenset)):
        size += sum(map(size_of, value))
    return size


def _count(n_bytes: int) -> None:
    """Count a new result, and let all caches begin anew if it is too much; the new result is kept."""
    global _n_bytes
    _n_bytes += n_bytes
    if _n_bytes > LIMIT_BYTES:
        _n_bytes = n_bytes
        for cache in _caches:
            cache.cache_clear()
