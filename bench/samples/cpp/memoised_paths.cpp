#include <functional>
#include <iostream>
#include <vector>
using namespace std;

int main() {
    int h, w;
    cin >> h >> w;
    vector<vector<int>> known(h, vector<int>(w, -1));
    function<int> ways;
    ways = [&known, &ways](int r, int c) {
        if (r == 0 || c == 0) return 1;
        if (known[r][c] >= 0) return known[r][c];
        known[r][c] = (ways(r - 1, c) + ways(r, c - 1)) % 998244353;
        return known[r][c];
    };
    cout << ways(h - 1, w - 1) << endl;
    return 0;
}