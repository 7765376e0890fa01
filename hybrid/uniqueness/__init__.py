"""Keep items and keys unique, beside the grammar.

`uniqueItems` forbids equal items, and objects forbid equal keys. A stack does not know which items came
before, so the grammar of such a schema allows repetitions. The follower here reads the text along with
another follower. It removes the tokens that would repeat something, and the tokens after which only
repetitions are possible (docs/json-schema.md).
"""

from hybrid.uniqueness.cursor import Cursor, Repeated
from hybrid.uniqueness.follower import UniquenessFollower

__all__ = ["Cursor", "Repeated", "UniquenessFollower"]
