#include <algorithm>
#include <iostream>
#include <vector>
using namespace std;

int main() {
    int items, room;
    cin >> items >> room;
    vector<int> weight(items), value(items);
    for (int i = 0; i < items; i++) cin >> weight[i] >> value[i];
    vector<int> best(room + 1, 0);
    for (int i = 0; i < items; i++) {
        for (int w = room; w >= weight[i]; w--) {
            best[w] = max(best[w], best[w - weight[i]] + value[i]);
        }
    }
    cout << best[room] << endl;
}