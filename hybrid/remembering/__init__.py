"""Remember items and keys that must not be repeated, beside the grammar.

`uniqueItems` forbids equal items, and objects forbid equal keys. A stack does not know which items came
before, so the grammar of such a schema allows repetitions. The follower here reads the text along with
another follower. It removes the tokens that would repeat something, and the tokens after which only
repetitions are possible (docs/json-schema.md).
"""

from hybrid.remembering.cursor import Cursor, Repeated
from hybrid.remembering.follower import RememberingFollower

__all__ = ["Cursor", "RememberingFollower", "Repeated"]
