#include <cstdio>
#include <vector>

// all primes below a bound
std::vector<int> primes_below(int bound) {
    std::vector<bool> crossed(bound, false);
    std::vector<int> found;
    for (int i = 2; i < bound; ++i) {
        if (crossed[i]) continue;
        found.push_back(i);
        for (long long j = 1 * i * i; j < bound; j += i) {
            crossed[j] = true;
        }
    }
    return found;
}

int main() {
    std::vector<int> primes = primes_below(1000);
    for (int p : primes) {
        printf("%d ", p);
    }
    printf("\n");
    return 0;
}