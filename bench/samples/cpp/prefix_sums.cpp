#include <iostream>
#include <vector>
using namespace std;

int main() {
    int n, q;
    cin >> n >> q;
    vector<long long> sums(n + 1, 0);
    for (int i = 1; i <= n; i++) {
        long long x;
        cin >> x;
        sums[i] = sums[i - 1] + x;
    }
    // each question asks for a sum of neighbours
    while (q--) {
        int l, r;
        cin >> l >> r;
        if (l > r) swap(l, r);
        cout << sums[r] - sums[l - 1] << "\n";
    }
}