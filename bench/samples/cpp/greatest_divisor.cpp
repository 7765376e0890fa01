#include <iostream>
using namespace std;

int gcd_of(int a, int b) {
    while (b != 0) {
        int rest = a % b;
        a = b;
        b = rest;
    }
    return a;
}

int main() {
    int tests;
    cin >> tests;
    while (tests--) {
        int a, b;
        cin >> a >> b;
        cout << gcd_of(a, b) << "\n";
    }
    return 0;
}