unsigned long string_length(const char *text) {
    const char *end = text;
    while (*end) end++;
    return (unsigned long) (end - text);
}
