static void swap(int *a, int *b) {
    int kept = *a;
    *a = *b;
    *b = kept;
}

void bubble_sort(int values[], int n) {
    bool swapped = 1;
    while (swapped) {
        swapped = 0;
        for (int i = 1; i < n; ++i) {
            if (values[i - 1] > values[i]) {
                swap(&values[i - 1], &values[i]);
                swapped = 1;
            }
        }
    }
}
