"""What may not come twice: items under `uniqueItems`, and keys, remembered beside the grammar.

No stack tells whether an item came before, so the grammar of such a schema lets it come again. The follower
here reads the text along with another one, and takes away the tokens that would repeat something, and those
behind which only repetitions are left (docs/json-schema.md).
"""

from hybrid.remembering.cursor import Cursor, Repeated
from hybrid.remembering.follower import RememberingFollower

__all__ = ["Cursor", "RememberingFollower", "Repeated"]
