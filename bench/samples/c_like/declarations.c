extern int verbose;
static unsigned long long counter = 0, limit = 10000UL;
const char *const names[] = { "zero", "one", "two", "three" };
int primes[8] = { 2, 3, 5, 7, [5] = 13, 17 };
struct point origin = { .x = 0.0, .y = -1.5e-3 };
double scale;
char newline = '\n', quote = '\'', null = '\0';
unsigned flags = 1u << 3 | 1u << 7;
