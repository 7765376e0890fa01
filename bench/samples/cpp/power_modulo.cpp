#include <iostream>

typedef unsigned long big;

big power(big base, big exponent, big modulus) {
    big result = 1;
    base %= modulus;
    while (exponent > 0) {
        if (exponent & 1) {
            result = result * base % modulus;
        }
        base = base * base % modulus;
        exponent >>= 1;
    }
    return result;
}

int main() {
    big a, b, m;
    std::cin >> a >> b >> m;
    std::cout << power(a, b, m) << std::endl;
    return 0;
}