void quick_sort(double *values, long low, long high) {
    if (low >= high) return;
    double pivot = values[(low + high) / 2];
    long i = low, j = high;
    while (i <= j) {
        while (values[i] < pivot) i++;
        while (values[j] > pivot) j--;
        if (i <= j) {
            double kept = values[i];
            values[i++] = values[j];
            values[j--] = kept;
        }
    }
    quick_sort(values, low, j);
    quick_sort(values, i, high);
}
