#include <iostream>
#include <utility>
#include <vector>
using namespace std;

void rotate(vector<vector<int>>& m) {
    int n = m.size();
    for (int i = 0; i < n; ++i) {
        for (int j = i; j < n; ++j) {
            swap(m[i][j], m[j][i]);
        }
    }
    for (int i = 0; i < n; ++i) {
        for (int j = 0; j < n / 2; ++j) swap(m[i][j], m[i][n - 1 - j]);
    }
}

int main() {
    int n;
    cin >> n;
    vector<vector<int>> m(n, vector<int>(n));
    for (auto& row : m) for (auto& x : row) cin >> x;
    rotate(m);
    for (auto& row : m) {
        for (auto& x : row) cout << x << " ";
        cout << "\n";
    }
    return 0;
}