typedef struct {
    unsigned char bytes[1024];
    volatile unsigned int head;
    volatile unsigned int tail;
} ring;

bool ring_put(ring *r, unsigned char byte) {
    unsigned int next = (r->head + 1) & 1023;
    if (next == r->tail) {
        return false; // full
    }
    r->bytes[r->head] = byte;
    r->head = next;
    return true;
}

int ring_get(ring *r) {
    if (r->head == r->tail) return -1;
    int byte = r->bytes[r->tail];
    r->tail = (r->tail + 1) & 1023;
    return byte;
}
