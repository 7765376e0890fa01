int copy_file(const char *from, const char *to) {
    int status = -1;
    char buffer[4096];
    file *in = open_file(from, "rb");
    if (in == NULL) goto done;
    file *out = open_file(to, "wb");
    if (out == NULL) goto close_in;
    for (;;) {
        long n = read_some(in, buffer, sizeof(buffer));
        if (n <= 0) break;
        if (write_all(out, buffer, n) != n) goto close_out;
    }
    status = 0;
close_out:
    close_file(out);
close_in:
    close_file(in);
done:
    return status;
}
