/* the number of bits that are set */
int population(unsigned long long x) {
    x = x - ((x >> 1) & 0x5555555555555555ull);
    x = (x & 0x3333333333333333ull) + ((x >> 2) & 0x3333333333333333ull);
    x = (x + (x >> 4)) & 0x0f0f0f0f0f0f0f0full;
    return (int) ((x * 0x0101010101010101ull) >> 56);
}

int lowest(unsigned x) {
    int n = 0;
    if (!x) return -1;
    while (!(x & 1)) x >>= 1, n++;
    return n;
}
