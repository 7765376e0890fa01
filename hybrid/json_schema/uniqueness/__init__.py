"""Items and keys that must not be repeated: where they may stand, and how many values they have.

`hybrid.uniqueness` remembers them while a text is read.
"""
