unsigned int crc(const unsigned char *data, long n) {
    unsigned int c = ~0u;
    long i;
    int k;
    for (i = 0; i < n; i++) {
        c ^= data[i];
        for (k = 0; k < 8; k++)
            c = c & 1 ? c >> 1 ^ 0xEDB88320u : c >> 1;
    }
    return ~c;
}
