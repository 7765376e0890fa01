#include <iostream>

int main() {
    int low = 1, high = 1000000;
    while (low < high) {
        int middle = (low + high + 1) / 2;
        std::cout << middle << std::endl;
        std::string answer;
        std::cin >> answer;
        if (answer == "<") {
            high = middle - 1;
        } else {
            low = middle;
        }
    }
    std::cout << "! " << low << std::endl;
    return 0;
}