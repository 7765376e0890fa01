enum { ROWS = 24, COLUMNS = 80 };

int neighbours(char field[ROWS][COLUMNS], int row, int column) {
    int n = 0;
    for (int r = -1; r <= 1; r++)
        for (int c = -1; c <= 1; c++)
            if (r || c)
                n += field[(row + r + ROWS) % ROWS][(column + c + COLUMNS) % COLUMNS] == '#';
    return n;
}

void step(char old[ROWS][COLUMNS], char next[ROWS][COLUMNS]) {
    for (int r = 0; r < ROWS; r++) {
        for (int c = 0; c < COLUMNS; c++) {
            int n = neighbours(old, r, c);
            next[r][c] = n == 3 || (n == 2 && old[r][c] == '#') ? '#' : ' ';
        }
    }
}
