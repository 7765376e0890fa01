"""Formats as regular languages.

What: `format_language` gives the automaton of a format. It is None if the format is unknown, not regular,
or cannot be checked; such formats are annotations, as the specification says.
When: for `format` in a schema; each automaton is made once for a process.
Limits: leap seconds are allowed only in UTC (the right minute in other zones would take 1,440 states);
years begin with 0001; host names have at most 3 labels of 63 characters, 5 of 49 or 12 of 20 (a total of
253 would take 30,000 states), but any number of labels under a `maxLength` below 253 or a large `minLength`,
which are counted; mail
addresses follow the grammar of RFC 5321, and its bounds on sizes only if a `maxLength` is not smaller than
these; if lengths are bounded, neither mail addresses nor URIs have an IPv6 address; internationalised names
are letters, digits and hyphens of any script. `regex` is not a regular language and is not asserted.

Sources: RFC 3339 (dates, times), its appendix A and ISO 8601 (durations), RFC 5321 and 6531 (mail), RFC 1123
and 5890 (host names), RFC 2673 and 4291 (addresses), RFC 3986, 3987 and 6570 (URIs, IRIs, templates), RFC
4122 (UUIDs), RFC 6901 and the draft of relative JSON pointers.
"""

from __future__ import annotations

import re
from functools import cache

from hybrid.json_schema.languages.automaton import Automaton
from hybrid.json_schema.languages.pattern import pattern
from hybrid.json_schema.languages.spelling import spell_common

BOUND = 20_000
"""The maximum number of states of a format's automaton. No format comes close."""

_LEAP = "(?:[0-9]{2}(?:0[48]|[2468][048]|[13579][26])|(?:0[48]|[2468][048]|[13579][26])00)"
_YEAR = "(?!0000)[0-9]{4}"
_DATE = (
    f"(?:{_YEAR}-(?:(?:0[13578]|1[02])-(?:0[1-9]|[12][0-9]|3[01])|(?:0[469]|11)-(?:0[1-9]|[12][0-9]|30)"
    f"|02-(?:0[1-9]|1[0-9]|2[0-8]))|{_LEAP}-02-29)"
)
_HOUR, _MINUTE = "(?:[01][0-9]|2[0-3])", "[0-5][0-9]"
_TIME = (
    f"(?:{_HOUR}:{_MINUTE}:{_MINUTE}(?:\\.[0-9]+)?(?:[Zz]|[+-]{_HOUR}:{_MINUTE})"
    "|23:59:60(?:\\.[0-9]+)?(?:[Zz]|[+-]00:00))"
)
_ANY_LEAP_TIME = f"{_HOUR}:{_MINUTE}:(?:{_MINUTE}|60)(?:\\.[0-9]+)?(?:[Zz]|[+-]{_HOUR}:{_MINUTE})"
"""Times with a leap second in any minute."""

_LEAP_SECOND = re.compile("([0-9]{2}):([0-9]{2}):60(?:[.][0-9]+)?(?:[Zz]|([+-])([0-9]{2}):([0-9]{2}))")
_CLOCK = "T(?:[0-9]+H(?:[0-9]+M(?:[0-9]+S)?)?|[0-9]+M(?:[0-9]+S)?|[0-9]+S)"
_DURATION = (
    f"P(?:[0-9]+W|(?:[0-9]+Y(?:[0-9]+M(?:[0-9]+D)?)?|[0-9]+M(?:[0-9]+D)?|[0-9]+D)(?:{_CLOCK})?|{_CLOCK})"
)


LONGEST_LABEL, LONGEST_HOST = 63, 253

SHORT_HOST = 32
"""With a greater `minLength`, the characters of host names are counted, as with a small `maxLength`."""


def _host(letter: str) -> str:
    """Return a pattern for labels of letters and digits, with hyphens inside."""
    shapes = []
    for labels, length in ((3, LONGEST_LABEL), (5, 49), (12, 20)):
        label = f"{letter}(?:(?:{letter}|-){{0,{length - 2}}}{letter})?"
        shapes.append(f"{label}(?:\\.{label}){{0,{labels - 1}}}")
    return f"(?:{'|'.join(shapes)})"


def _counted_host(letter: str, most: int = LONGEST_HOST) -> str:
    """Return a pattern for host names of at most `most` characters, which are counted elsewhere."""
    longest = f"{{0,{LONGEST_LABEL - 2}}}" if most > LONGEST_LABEL else "*"
    label = f"{letter}(?:(?:{letter}|-){longest}{letter})?"
    return f"{label}(?:\\.{label})*"


_BYTE = "(?:25[0-5]|2[0-4][0-9]|1[0-9]{2}|[1-9]?[0-9])"
_IPV4 = f"{_BYTE}(?:\\.{_BYTE}){{3}}"


def _ipv6(ipv4: str, least: int) -> str:
    """Return a pattern for eight groups, of which one run of at least `least` zeros may be left out; the last
    two may be an IPv4 address."""
    group = "[0-9A-Fa-f]{1,4}"
    shapes = [f"(?:{group}:){{7}}{group}", f"(?:{group}:){{6}}{ipv4}"]
    for before in range(9 - least):
        head = f"{group}(?::{group}){{{before - 1}}}" if before else ""
        after = 8 - least - before
        tails = [f"(?:{group}(?::{group}){{0,{after - 1}}})?" if after else ""]
        if after >= 2:
            tails.append(f"(?:{group}:){{0,{after - 2}}}{ipv4}")
        shapes += [f"{head}::{tail}" for tail in tails]
    return f"(?:{'|'.join(shapes)})"


_IPV6 = _ipv6(_IPV4, 1)
_MAIL_BYTE = "(?:25[0-5]|2[0-4][0-9]|[01]?[0-9]{1,2})"
_MAIL_IPV4 = f"{_MAIL_BYTE}(?:\\.{_MAIL_BYTE}){{3}}"
_MAIL_IPV6 = f"[Ii][Pp][Vv]6:{_ipv6(_MAIL_IPV4, 2)}"
"""In mail addresses, bytes may begin with zeros, and `::` is two groups or more (RFC 5321, section 4.1.3)."""

_ATOM = "[A-Za-z0-9!#$%&'*+/=?^_`{|}~-]"
_WIDE = "[\\u{80}-\\u{10FFFF}]"


def _mail(atom: str, quoted: str, letter: str, addresses: str = f"{_MAIL_IPV4}|{_MAIL_IPV6}") -> str:
    """Return a pattern for the grammar of RFC 5321, section 4.1.2, which has no bounds on lengths. The bounds
    of section 4.5.3.1 are not asserted."""
    local = f'(?:{atom}+(?:\\.{atom}+)*|"(?:{quoted}|\\\\[\\x20-\\x7e])*")'
    label = f"{letter}(?:(?:{letter}|-)*{letter})?"
    return f"{local}@(?:{label}(?:\\.{label})*|\\[(?:{addresses})\\])"


def _bounded_mail(atom: str, quoted: str, letter: str) -> str:
    """Return a pattern for the same grammar with the bounds of section 4.5.3.1: 64 characters before the
    ``@`` (31 if they are quoted, because each may be written as two), and a host name after it."""
    local = f'(?:(?=[^@]{{1,64}}@){atom}+(?:\\.{atom}+)*|"(?:{quoted}|\\\\[\\x20-\\x7e]){{0,31}}")'
    return f"{local}@(?:{_host(letter)}|\\[{_MAIL_IPV4}\\])"


_IRI_RANGES = "\\u{A0}-\\uD7FF\\uF900-\\uFDCF\\uFDF0-\\uFFEF" + "".join(
    f"\\u{{{plane:X}{'1000' if plane == 0xE else '0000'}}}-\\u{{{plane:X}FFFD}}" for plane in range(1, 0xF)
)
_PRIVATE_RANGES = "\\uE000-\\uF8FF\\u{F0000}-\\u{FFFFD}\\u{100000}-\\u{10FFFD}"
"""The characters beyond ASCII of an IRI: `ucschar`, and `iprivate`, which may stand in queries (RFC 3987,
section 2.2)."""

_IRI_CHARACTERS = f"|[{_IRI_RANGES}]"


def _uri(wide: str, with_scheme: bool, ipv6: str = f"{_IPV6}|") -> str:
    """Return a pattern for a URI; for an IRI if `wide` allows characters beyond ASCII; for a reference if no
    scheme is needed."""
    private = f"|[{_PRIVATE_RANGES}]" if wide else ""
    plain = f"(?:[A-Za-z0-9._~!$&'()*+,;=-]|%[0-9A-Fa-f]{{2}}{wide})"
    segment, no_colon = f"(?:{plain}|[:@])", f"(?:{plain}|@)"
    authority = (
        f"//(?:(?:{plain}|:)*@)?(?:\\[(?:{ipv6}[vV][0-9A-Fa-f]+\\.(?:[A-Za-z0-9._~!$&'()*+,;=:-])+)\\]|{plain}*)"
        "(?::[0-9]*)?"
    )
    below = f"(?:/{segment}*)*"
    absolute = f"/(?:{segment}+{below})?"
    tail = f"(?:\\?(?:{segment}|[/?]{private})*)?(?:#(?:{segment}|[/?])*)?"
    full = f"[A-Za-z][A-Za-z0-9+.-]*:(?:{authority}{below}|{absolute}|{segment}+{below}|){tail}"
    if with_scheme:
        return full
    return f"(?:{full}|(?:{authority}{below}|{absolute}|{no_colon}+{below}|){tail})"


def _template() -> str:
    # RFC 6570 excluded the apostrophe by mistake: erratum 6937.
    literal = f"(?:[!#$&-;=?-\\[\\]_a-z~{_IRI_RANGES}{_PRIVATE_RANGES}]|%[0-9A-Fa-f]{{2}})"
    letter = "(?:[A-Za-z0-9_]|%[0-9A-Fa-f]{2})"
    name = f"{letter}(?:\\.?{letter})*(?:\\*|:[1-9][0-9]{{0,3}})?"
    return f"(?:{literal}|\\{{[+#./;?&=,!@|]?{name}(?:,{name})*\\}})*"


_HOST_LETTERS = {
    "hostname": "[A-Za-z0-9]",
    "idn-hostname": "[A-Za-z0-9\\u{B7}-\\u{3001}\\u{3003}-\\u{FEFE}\\u{FF10}-\\u{FF60}\\u{FF62}-\\u{10FFFF}]",
}

_QUOTED = "[\\x20\\x21\\x23-\\x5b\\x5d-\\x7e]"
_MAILS = {
    "email": (_ATOM, _QUOTED, _HOST_LETTERS["hostname"]),
    "idn-email": (f"(?:{_ATOM}|{_WIDE})", f"(?:{_QUOTED}|{_WIDE})", _HOST_LETTERS["idn-hostname"]),
}
_URIS = {
    "uri": ("", True), "uri-reference": ("", False), "iri": (_IRI_CHARACTERS, True),
    "iri-reference": (_IRI_CHARACTERS, False),
}  # fmt: skip
_POINTER = "(?:/(?:[^/~]|~[01])*)*"

_SOURCES = {
    "date": _DATE,
    "time": _TIME,
    "date-time": f"{_DATE}[Tt]{_TIME}",
    "duration": _DURATION,
    **{name: _mail(*parts) for name, parts in _MAILS.items()},
    **{name: _host(letter) for name, letter in _HOST_LETTERS.items()},
    "ipv4": _IPV4,
    "ipv6": _IPV6,
    **{name: _uri(*parts) for name, parts in _URIS.items()},
    "uri-template": _template(),
    "uuid": "[0-9A-Fa-f]{8}(?:-[0-9A-Fa-f]{4}){3}-[0-9A-Fa-f]{12}",
    "json-pointer": _POINTER,
    "relative-json-pointer": f"(?:0|[1-9][0-9]*)(?:#|{_POINTER})",
}  # fmt: skip

_WITHOUT_LIMITS = {
    "time": _ANY_LEAP_TIME,
    "date-time": f"{_DATE}[Tt]{_ANY_LEAP_TIME}",
    **{name: _counted_host(letter) for name, letter in _HOST_LETTERS.items()},
    "relative-json-pointer": f"(?:0|[1-9][0-9]*)(?:[+-][1-9][0-9]*)?(?:#|{_POINTER})",
}
"""Languages that contain all texts of a format, and more."""

_UNDER_LENGTHS = {name: _mail(*parts, _MAIL_IPV4) for name, parts in _MAILS.items()}
_UNDER_LENGTHS |= {name: _uri(*parts, "") for name, parts in _URIS.items()}
"""Replacements for formats if lengths are bounded: IPv6 addresses would take 150 states for each length."""

_WITHIN_BOUNDS = {name: _bounded_mail(*parts) for name, parts in _MAILS.items()}
"""Formats whose own bounds imply any `maxLength` from `LONGEST_MAIL` on, so that it need not be counted.
With a `maxLength` of 1,024, the grammar without bounds would take 25,000 states."""

LONGEST_MAIL = 64 + 1 + LONGEST_HOST

FORMATS = frozenset(_SOURCES)
"""Formats that are asserted."""

_SYMBOLS = "allows symbols in host names: the rules of RFC 5892 for single characters are not checked"

TOO_WIDE = {
    "regex": "is not checked: no grammar can describe all valid regular expressions",
    "idn-hostname": _SYMBOLS,
    "idn-email": _SYMBOLS,
}
"""Why texts without the format are allowed, for each known format of which this is true; grammars that
contain one list it."""


def format_language(
    name: str, is_bounded: bool = False, most: int | None = None, least: int = 0
) -> Automaton | None:
    """Return the language of a format; None: it is not asserted. Unless `TOO_WIDE` names the format, each
    text of the language has it.

    Args:
        name: the format.
        is_bounded: whether the schema also bounds lengths. Then addresses have no IPv6 address.
        most: the greatest allowed length; None if there is none.
        least: the least allowed length.
    """
    source = _source(name, is_bounded, most, least)
    return None if source is None else _language(source)


def _source(name: str, is_bounded: bool, most: int | None, least: int) -> str | None:
    if is_counted_host(name, most, least):
        return _counted_host(_HOST_LETTERS[name], LONGEST_HOST if most is None else most)
    if most is not None and most >= LONGEST_MAIL and name in _WITHIN_BOUNDS:
        return _WITHIN_BOUNDS[name]
    return (_UNDER_LENGTHS.get(name) if is_bounded else None) or _SOURCES.get(name)


def is_counted_host(name: str, most: int | None, least: int) -> bool:
    """Whether the language of a format with these lengths leaves it to others to count the characters of
    host names."""
    return name in _HOST_LETTERS and (least > SHORT_HOST or (most is not None and most < LONGEST_HOST))


def lacks_texts(name: str, is_bounded: bool, most: int | None, least: int) -> bool:
    """Whether texts with these lengths may have a format, and still not be in its `format_language`."""
    if is_counted_host(name, most, least):
        return False
    return name in _WITHOUT_LIMITS or _source(name, is_bounded, most, least) != _SOURCES[name]


def wider_language(name: str) -> Automaton:
    """Return a language that has all texts of a format, and perhaps more. A text that must not have the
    format must not be in this language."""
    return _language(_WITHOUT_LIMITS.get(name) or _SOURCES[name])


def has_format(name: str, text: str) -> bool:
    """Whether a text has a format, without the limits of `format_language`."""
    if not wider_language(name).contains(text) or (name in _HOST_LETTERS and len(text) > LONGEST_HOST):
        return False
    leap = _LEAP_SECOND.search(text) if name in ("time", "date-time") else None
    if leap is None:
        return True
    hour, minute, sign, hours, minutes = leap.groups(default="0")
    offset = 60 * int(hours) + int(minutes)
    return (60 * int(hour) + int(minute) + (offset if sign == "-" else -offset)) % 1440 == 1439


COMMON = ("date", "time", "date-time", "duration", "email", "hostname", "ipv4", "ipv6", "uri", "uuid")
"""Formats that many schemas have: those of OpenAI's structured outputs, and URIs."""


def make_common() -> None:
    """Make the automata of the common formats and classes of characters in advance; otherwise the first
    schema with a format waits up to 30 ms for it. Mail addresses and URIs often have a `maxLength`, too."""
    spell_common()
    for name in COMMON:
        format_language(name)
        format_language(name, True)
    format_language("email", True, LONGEST_MAIL)


@cache
def _language(source: str) -> Automaton:
    return pattern(f"^(?:{source})$", BOUND)
