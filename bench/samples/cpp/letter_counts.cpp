#include <cctype>
#include <iostream>
#include <map>
#include <string>
using namespace std;

int main() {
    map<char, int> counts;
    string word;
    while (cin >> word) {
        for (char c : word) {
            if (isalpha(c)) counts[tolower(c)]++;
        }
    }
    for (auto entry : counts) {
        cout << entry.first << ": " << entry.second << '\n';
    }
    return 0;
}