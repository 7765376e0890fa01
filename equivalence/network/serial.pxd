cdef enum:  # the types of expressions, for compiled code
    BYTES, CLASS, STAR, EMPTY, RULE, SEQUENCE, CHOICES, TAGS, REPEAT
    TOKEN_TAGS = 11
    PATTERN
