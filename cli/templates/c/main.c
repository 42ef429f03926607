/* A tool for language models: counts the lines and words of a text or of a file. */

#include <ctype.h>
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "json.h"

/* Tells a model what the tool does and what it takes. */
static const char SCHEMA[] =
    "{\n"
    "  \"name\": \"word_count\",\n"
    "  \"description\": \"Count the lines and the words of a text or a file, exactly.\",\n"
    "  \"parameters\": {\n"
    "    \"type\": \"object\",\n"
    "    \"properties\": {\n"
    "      \"text\": {\"type\": \"string\", \"description\": \"The text to count\"},\n"
    "      \"path\": {\"type\": \"string\", \"description\": \"The file to count, without a text\"}\n"
    "    }\n"
    "  }\n"
    "}\n";

/* Answers a call that cannot be done. The model that wrote the arguments reads it. The reason has no
   character that JSON would escape. */
static void fail(const char *reason, const char *code) {
    printf("{\"error\": \"%s\", \"error_code\": \"%s\"}\n", reason, code);
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

/* Counts the file at a path. The path comes from a model, and may have any bytes. */
static void count_file(struct text path) {
    char *name = malloc(path.length + 1);
    if (name == NULL) abort();
    if (path.length > 0) memcpy(name, path.bytes, path.length);
    name[path.length] = '\0';
    FILE *file = strlen(name) == path.length ? fopen(name, "rb") : (errno = EINVAL, NULL);
    free(name);
    struct text text = {NULL, 0};
    if (file != NULL) text = read_all(file);
    if (file == NULL || ferror(file)) {
        fail(strerror(errno), "READ_FAILED");
    } else {
        count(text);
    }
    if (file != NULL) fclose(file);
    free(text.bytes);
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
            fail("the arguments must be one JSON object", "INVALID_PARAMS");
            break;
        case JSON_IS_NO_STRING:
            if (json_string_member(input, "path", &text) == JSON_IS_STRING) {
                count_file(text);
                free(text.bytes);
            } else {
                fail("`text` or `path` must be a string", "INVALID_PARAMS");
            }
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
