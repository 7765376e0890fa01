#include <iostream>
#include <string>
using namespace std;

/* the number of substrings that read the same both ways */
int main() {
    string s;
    cin >> s;
    int n = s.length(), total = 0;
    for (int center = 0; center < 2 * n - 1; center++) {
        int left = center / 2;
        int right = left + center % 2;
        while (left >= 0 && right < n && s[left] == s[right]) {
            total += 1;
            left--;
            right++;
        }
    }
    cout << total;
    return 0;
}