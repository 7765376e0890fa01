static const char *at;

static double sum(void);

static double factor(void) {
    while (*at == ' ' || *at == '\t') at++;
    if (*at == '(') {
        at++;
        double inner = sum();
        at++;
        return inner;
    }
    if (*at == '-') {
        at++;
        return -factor();
    }
    return strtod(at, &at);
}

static double product(void) {
    double left = factor();
    while (*at == '*' || *at == '/') {
        if (*at++ == '*') left *= factor();
        else left /= factor();
    }
    return left;
}
