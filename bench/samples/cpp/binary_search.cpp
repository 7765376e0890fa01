#include <iostream>
#include <vector>

int find_place(const std::vector<int>& sorted, int wanted) {
    int low = 0, high = (int)sorted.size() - 1;
    while (low <= high) {
        int middle = low + (high - low) / 2;
        if (sorted[middle] == wanted) return middle;
        if (sorted[middle] < wanted) low = middle + 1;
        else high = middle - 1;
    }
    return -1;
}

int main() {
    std::vector<int> data = {2, 3, 5, 7, 11, 13};
    std::cout << find_place(data, 7) << "\n";
}