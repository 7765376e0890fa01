#include <stdlib.h>

typedef struct node node;

struct node {
    int value;
    struct node *next;
};

node *push(node *list, int value) {
    node *made = malloc(sizeof(node));
    if (!made) return NULL;
    made->value = value;
    made->next = list;
    return made;
}

int length(const node *list) {
    int n = 0;
    for (; list != NULL; list = list->next) n++;
    return n;
}
