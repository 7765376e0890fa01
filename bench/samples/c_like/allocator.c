#define ALIGNMENT 16

static unsigned char arena[1 << 20];
static unsigned long used;

void *allocate(unsigned long size) {
    size = (size + ALIGNMENT - 1) & ~(ALIGNMENT - 1);
    if (used + size > sizeof(arena)) {
        return (void *) 0;
    }
    void *found = arena + used;
    used += size;
    return found;
}

void reset(void) { used = 0; }
