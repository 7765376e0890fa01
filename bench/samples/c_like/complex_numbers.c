typedef struct complex { double re, im; } complex;

complex times(complex a, complex b) {
    complex result;
    result.re = a.re * b.re - a.im * b.im;
    result.im = a.re * b.im + a.im * b.re;
    return result;
}

int escapes(complex c, int most) {
    complex z;
    int n = 0;
    z.re = z.im = 0;
    while (n < most && z.re * z.re + z.im * z.im < 4.0) {
        z = times(z, z);
        z.re += c.re, z.im += c.im;
        ++n;
    }
    return n;
}
