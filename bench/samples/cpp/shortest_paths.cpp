#include <iostream>
#include <queue>
#include <vector>
using namespace std;

int main() {
    int nodes, edges, source;
    cin >> nodes >> edges >> source;
    vector<vector<pair<int, int>>> graph(nodes + 1);
    for (int i = 0; i < edges; i++) {
        int u, v, w;
        cin >> u >> v >> w;
        graph[u].push_back(make_pair(v, w));
        graph[v].push_back(make_pair(u, w));
    }
    vector<long> distance(nodes + 1, 1000000000);
    priority_queue<pair<long, int>> heap;
    distance[source] = 0;
    heap.push(make_pair(0, source));
    while (!heap.empty()) {
        long d = -heap.top().first;
        int u = heap.top().second;
        heap.pop();
        if (d > distance[u]) continue;
        for (auto& edge : graph[u]) {
            long longer = d + edge.second;
            if (longer < distance[edge.first]) {
                distance[edge.first] = longer;
                heap.push(make_pair(-longer, edge.first));
            }
        }
    }
    for (int v = 1; v <= nodes; v++) {
        cout << (distance[v] == 1000000000 ? -1 : distance[v]) << " ";
    }
    return 0;
}