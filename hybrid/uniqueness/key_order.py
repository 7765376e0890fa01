"""Put the keys of earlier items into the order of an unfinished item.

What: undeclared keys may come in any order, and twice, so texts of equal items may differ. `with_keys_like`
writes the earlier items that an unfinished one may become equal to, such that their texts begin with its
text. Then texts can be compared letter by letter.
When: if an item may go on after an object with undeclared keys (`Beginnings.has_free_order`). As long as that
object is unfinished, it can get another key, so nothing needs to be compared.

Texts have no white space, and all numbers but one at their end are in the shortest spelling.
"""

from __future__ import annotations

import re
from collections import Counter
from functools import lru_cache

from hybrid.json_schema.uniqueness.prefix_counts import STRING, key_of_part, parts_of

_BEFORE_OBJECT = re.compile(rf'.(?:[^"{{]|{STRING})*\{{')
"""What stands before the first key of an object that is a part of an array or object."""

_STRING_OR_END = re.compile(rf"{STRING}?|\}}")
"""A string, which may be unfinished, or the end of an object."""

_STRING_OR_MEMBER = re.compile(rf'({STRING})(:(?:(?:{STRING}|[^][{{}}",]+)(?=[],}}]))?)?')
"""A finished string; if it is a key, with the colon, and with its value if that is a finished scalar."""


def with_keys_like(text: str, whole: frozenset[str]) -> frozenset[str]:
    """Return the texts of those items that an unfinished one may become equal to, perhaps with others.

    Args:
        text: the unfinished item.
        whole: texts of items.

    Raises:
        Unknown: a text is nested too deeply.
    """
    ends = [part.end() for part in _STRING_OR_END.finditer(text) if part[0] == "}"]
    return _with_keys_like(text[: ends[-1]], whole) if ends else whole


@lru_cache(maxsize=8)  # thousands of tokens go on behind the same object
def _with_keys_like(text: str, whole: frozenset[str]) -> frozenset[str]:
    before = _BEFORE_OBJECT.match(text)
    if before is None:
        return whole
    alike = [one for one in whole if one.startswith(before[0])]
    found = [(name, value) for name, value in _STRING_OR_MEMBER.findall(text, before.end()) if value]
    times = Counter(name for name, _ in found)
    # A quick test: most of the others need not be written. If a key comes again, what stands in its earlier
    # arrays and objects does not count.
    if all(times[name] == 1 for name, value in found if value == ":"):
        for name, value in found:
            needed = name + (value if times[name] == 1 else ":")
            alike = [one for one in alike if needed in one]
    return frozenset(_written_like(text, one) for one in alike)


def _written_like(text: str, whole: str) -> str:
    """Return a text of a whole value, or of a member of an object, that begins with an unfinished one if the
    two may become equal."""
    key = key_of_part(text)
    if key:
        is_same = whole.startswith(key)
        return key + _written_like(text[len(key) :], whole[len(key) :]) if is_same else whole
    if text[:1] != whole[:1] or text[:1] not in ("[", "{"):
        return whole
    begun, is_closed = parts_of(text)
    parts, _ = parts_of(whole)
    if text[0] == "[" or not is_closed:
        parts[: len(begun)] = map(_written_like, begun, parts)
        return f"{text[0]}{','.join(parts)}{whole[-1]}"
    values = {key_of_part(part): part for part in parts}  # of equal keys, the last one counts
    for key, part in {key_of_part(part): part for part in begun}.items():
        if key not in values or _written_like(part, values.pop(key)) != part:
            return whole
    return whole if values else text
