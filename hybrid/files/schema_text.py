"""The JSON schema from which a file's grammar was made.

What: `schema_of` reads the schema, the options on which its meaning depends, and what was left out of it.
When: when a file is read or described. `relaxed` and `narrowed`, which follow from these, are computed on
request.
Limits: Lark grammars have no schema.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from hybrid.files import checks
from hybrid.files.container import Arrays, malformed
from hybrid.xgrammar.relaxed import Relaxation, SchemaText


def schema_of(header: dict[str, Any], arrays: Arrays) -> SchemaText | None:
    """Return the schema; None if the grammar was made from something else.

    Raises:
        ArtifactError: the members or the header do not have the right form.
    """
    text = checks.taken(arrays, "schema", (None,), 0, 255, np.uint8).tobytes()
    options = header.get("schema")
    if options is None and not text:
        return None
    if not isinstance(options, list) or [type(flag) for flag in options] != [bool, bool]:
        raise malformed(f"the options of its schema are {options!r}")
    left_out = header.get("left_out")
    if left_out is not None:
        if not isinstance(left_out, list) or not all(
            isinstance(one, list) and list(map(type, one)) == [str, str, str] for one in left_out
        ):
            raise malformed(f"what was left out of its schema is {left_out!r}")
        left_out = tuple(Relaxation(*one) for one in left_out)
    try:
        return SchemaText(text.decode("utf-8", "surrogatepass"), options[0], options[1], left_out)
    except UnicodeDecodeError as error:
        raise malformed(f"its schema is not UTF-8 ({error})") from error
