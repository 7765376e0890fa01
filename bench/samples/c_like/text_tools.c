#include <ctype.h>
#include <string.h>

char *trim(char *text) {
    char *end;
    while (isspace((unsigned char) *text)) text++;
    if (*text == 0) return text;
    end = text + strlen(text) - 1;
    while (end > text && isspace((unsigned char) *end)) end--;
    end[1] = '\0';
    return text;
}

int starts_with(const char *text, const char *head) {
    return strncmp(text, head, strlen(head)) == 0;
}
