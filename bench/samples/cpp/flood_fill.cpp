#include <iostream>
#include <queue>
#include <string>
#include <vector>
using namespace std;

int count_islands(vector<string>& field) {
    int rows = field.size(), columns = field[0].size(), islands = 0;
    vector<int> dr = {1, -1, 0, 0};
    vector<int> dc = {0, 0, 1, -1};
    for (int r = 0; r < rows; r++) {
        for (int c = 0; c < columns; c++) {
            if (field[r][c] != '#') continue;
            islands++;
            queue<pair<int, int>> waiting;
            waiting.push(make_pair(r, c));
            field[r][c] = '.';
            while (!waiting.empty()) {
                pair<int, int> at = waiting.front();
                waiting.pop();
                for (int k = 0; k < 4; k++) {
                    int y = at.first + dr[k], x = at.second + dc[k];
                    if (y >= 0 && y < rows && x >= 0 && x < columns && field[y][x] == '#') {
                        field[y][x] = '.';
                        waiting.push(make_pair(y, x));
                    }
                }
            }
        }
    }
    return islands;
}

int main() {
    int n;
    cin >> n;
    vector<string> field(n);
    for (auto& line : field) cin >> line;
    cout << count_islands(field) << '\n';
    return 0;
}