struct point {
    float x, y;
};

enum kind { CIRCLE, BOX };

struct shape {
    enum kind kind;
    union {
        struct point corner[2];
        float radius;
    } as;
};

float area(const struct shape *s) {
    if (s->kind == CIRCLE) {
        return 3.14159f * s->as.radius * s->as.radius;
    }
    float width = s->as.corner[1].x - s->as.corner[0].x;
    float height = s->as.corner[1].y - s->as.corner[0].y;
    return width * height;
}
