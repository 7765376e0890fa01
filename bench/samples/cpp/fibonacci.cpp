#include <iostream>
using namespace std;
typedef long long number;

number fibonacci(int n) {
    number a = 0, b = 1;
    for (int i = 0; i < n; i++) {
        number next = (a + b) % 1000000007;
        a = b;
        b = next;
    }
    return a;
}

int main() {
    int n;
    while (cin >> n) {
        cout << fibonacci(n) << endl;
    }
    return 0;
}