#include <stdio.h>

int main(int argc, char **argv) {
    if (argc != 2) {
        fprintf(stderr, "usage: %s NUMBER\n", argv[0]);
        return 1;
    }
    long n = atol(argv[1]);
    do {
        printf("%ld\n", n);
        n = n % 2 ? 3 * n + 1 : n / 2;
    } while (n != 1);
    return 0;
}
