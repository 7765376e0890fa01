#include "table.h"
#define BUCKETS 256
#define EMPTY ((struct entry *) 0)

static struct entry *buckets[BUCKETS];

unsigned int hash(const char *key) {
    unsigned int h = 2166136261u;
    while (*key) {
        h ^= (unsigned char) *key++;
        h *= 16777619u;
    }
    return h % BUCKETS;
}

struct entry *look_up(const char *key) {
    struct entry *e = buckets[hash(key)];
    for (; e; e = e->next) {
        if (strcmp(e->key, key) == 0) return e;
    }
    return 0;
}
