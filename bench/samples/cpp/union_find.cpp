#include <iostream>
#include <numeric>
#include <vector>
using namespace std;

int leader(vector<int>& parent, int x) {
    if (parent[x] == x) return x;
    parent[x] = leader(parent, parent[x]);
    return parent[x];
}

int main() {
    int n, q;
    cin >> n >> q;
    vector<int> parent(n);
    iota(parent.begin(), parent.end(), 0);
    int parts = n;
    while (q-- > 0) {
        int a, b;
        cin >> a >> b;
        int ra = leader(parent, a), rb = leader(parent, b);
        if (ra != rb) {
            parent[ra] = rb;
            --parts;
        }
    }
    cout << "parts: " << parts << endl;
    return 0;
}