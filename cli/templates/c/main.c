/* A tool for language models: counts the lines and words of a text. */

#include <ctype.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "json.h"

/* Tells a model what the tool does and what it takes. */
static const char SCHEMA[] =
    "{\n"
    "  \"name\": \"word_count\",\n"
    "  \"description\": \"Count the lines and the words of a text, exactly.\",\n"
    "  \"parameters\": {\n"
    "    \"type\": \"object\",\n"
    "    \"properties\": {\n"
    "      \"text\": {\"type\": \"string\", \"description\": \"The text to count\"}\n"
    "    },\n"
    "    \"required\": [\"text\"]\n"
    "  }\n"
    "}\n";

/* Answers arguments that cannot be used, which a model wrote. */
static void refuse(const char *reason) {
    printf("{\"error\": \"%s\", \"error_code\": \"INVALID_PARAMS\"}\n", reason);
}

static void count(struct text text) {
    size_t lines = 0, words = 0;
    bool in_word = false;
    for (size_t i = 0; i < text.length; i++) {
        bool is_space = isspace((unsigned char)text.bytes[i]);
        words += !is_space && !in_word;
        in_word = !is_space;
        lines += text.bytes[i] == '\n';
    }
    /* The last line counts without an end, too. */
    lines += text.length > 0 && text.bytes[text.length - 1] != '\n';
    printf("{\"lines\": %zu, \"words\": %zu}\n", lines, words);
}

static struct text read_all(FILE *file) {
    struct text all = {NULL, 0};
    size_t room = 0, got;
    do {
        if (all.length == room) {
            room = room == 0 ? 4096 : 2 * room;
            all.bytes = realloc(all.bytes, room);
            if (all.bytes == NULL) abort();
        }
        got = fread(all.bytes + all.length, 1, room - all.length, file);
        all.length += got;
    } while (got > 0);
    return all;
}

int main(int argc, char **argv) {
    if (argc == 2 && strcmp(argv[1], "--schema") == 0) {
        fputs(SCHEMA, stdout);
    } else {
        struct text input = read_all(stdin), text;
        if (ferror(stdin)) {
            perror("stdin");
            return EXIT_FAILURE;
        }
        switch (json_string_member(input, "text", &text)) {
        case JSON_IS_NO_OBJECT:
            refuse("the arguments must be one JSON object");
            break;
        case JSON_IS_NO_STRING:
            refuse("`text` must be a string");
            break;
        case JSON_IS_STRING:
            count(text);
            free(text.bytes);
            break;
        }
        free(input.bytes);
    }
    return fflush(stdout) == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
