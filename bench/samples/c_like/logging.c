int log_line(const char *format, ...);

#define PREFIX "log: "

/*
 * Writes a number with thousands apart, into a buffer
 * that has to have room for 32 bytes.
 */
char *with_commas(long n, char *buffer) {
    char *at = buffer + 31;
    int digits = 0;
    *at = 0;
    do {
        if (digits && digits % 3 == 0) *--at = ',';
        *--at = "0123456789"[n % 10];
        digits++;
    } while (n /= 10);
    return at;
}
