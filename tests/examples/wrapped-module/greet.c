#include <stdio.h>

int main(int count, char **words) {
    for (int i = 1; i < count; i++) printf("Hello, %s!\n", words[i]);
    return 0;
}
