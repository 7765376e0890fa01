#include <cmath>
#include <iostream>
#include <vector>
using namespace std;

double mean(const vector<double>& xs) {
    double sum = 0.0;
    for (double x : xs) sum += x;
    return xs.empty() ? 0.0 : sum / xs.size();
}

double spread(const vector<double>& xs) {
    double m = mean(xs), sum = 0;
    for (double x : xs) {
        sum += (x - m) * (x - m);
    }
    return sqrt(sum / (xs.size() - 1));
}

int main() {
    vector<double> xs = {1.5, 2.25, 4e2, -7.0};
    cout << mean(xs) << " " << spread(xs) << endl;
    return 0;
}