#include <iostream>
#include <stack>
#include <string>
using namespace std;

bool balanced(string text) {
    stack<char> open;
    for (char c : text) {
        switch (c) {
            case '(':
            case '[':
                open.push(c);
                break;
            case ')':
                if (open.empty() || open.top() != '(') return false;
                open.pop();
                break;
            case ']':
                if (open.empty() || open.top() != '[') return false;
                open.pop();
                break;
            default:
                break;
        }
    }
    return open.empty();
}

int main() {
    string line;
    getline(cin, line);
    cout << (balanced(line) ? "YES" : "NO") << endl;
}