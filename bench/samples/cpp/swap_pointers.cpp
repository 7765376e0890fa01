#include <stdio.h>

void exchange(int* a, int* b) {
    int kept = *a;
    *a = *b;
    *b = kept;
}

int main() {
    int x = 3, y = 4;
    exchange(&x, &y);
    printf("%d %d\n", x, y);
    return 0;
}