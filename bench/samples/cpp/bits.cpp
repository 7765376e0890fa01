#include <iostream>
using namespace std;

int ones(unsigned int x) {
    int n = 0;
    for (; x; x >>= 1) {
        n += x & 1;
    }
    return n;
}

int main() {
    unsigned int a = 0, b = 0;
    cin >> a >> b;
    cout << ones(a ^ b) << " " << ones(a | b) << " " << ones(a & b) << endl;
    if (a > b and ones(a) == ones(b)) {
        cout << "equal weight" << endl;
    }
    return 0;
}