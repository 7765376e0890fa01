#include <iostream>
#include <vector>
using namespace std;

int main() {
    int n;
    long long target;
    cin >> n >> target;
    vector<long long> values(n);
    for (int i = 0; i < n; i++) {
        cin >> values[i];
    }
    long long pairs = 0;
    for (int i = 0; i < n; i++) {
        for (int j = i + 1; j < n; j++) {
            if (values[i] + values[j] == target) {
                pairs++;
            }
        }
    }
    cout << pairs << endl;
    return 0;
}