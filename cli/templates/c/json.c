#include "json.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

/* Deeper values are refused, so that a hostile input cannot exhaust the stack. */
enum { DEEPEST = 200 };

struct reader {
    const char *at;
    const char *end;
    int depth;
};

static bool read_value(struct reader *in);

/* Returns the next byte, or -1 at the end. */
static int peek(const struct reader *in) {
    return in->at < in->end ? (unsigned char)*in->at : -1;
}

static bool take(struct reader *in, char expected) {
    if (peek(in) != (unsigned char)expected) return false;
    in->at++;
    return true;
}

static void skip_space(struct reader *in) {
    while (peek(in) == ' ' || peek(in) == '\t' || peek(in) == '\n' || peek(in) == '\r') in->at++;
}

static bool read_word(struct reader *in, const char *word) {
    while (*word != '\0') {
        if (!take(in, *word++)) return false;
    }
    return true;
}

static bool read_digits(struct reader *in) {
    const char *start = in->at;
    while (peek(in) >= '0' && peek(in) <= '9') in->at++;
    return in->at > start;
}

static bool read_number(struct reader *in) {
    take(in, '-');
    if (!take(in, '0') && !read_digits(in)) return false;
    if (take(in, '.') && !read_digits(in)) return false;
    if (take(in, 'e') || take(in, 'E')) {
        if (!take(in, '+')) take(in, '-');
        return read_digits(in);
    }
    return true;
}

/* Reads the four digits of `\uXXXX`. */
static bool read_unit(struct reader *in, uint32_t *unit) {
    *unit = 0;
    for (int i = 0; i < 4; i++) {
        int c = peek(in);
        uint32_t digit;
        if (c >= '0' && c <= '9') digit = (uint32_t)(c - '0');
        else if (c >= 'a' && c <= 'f') digit = (uint32_t)(c - 'a' + 10);
        else if (c >= 'A' && c <= 'F') digit = (uint32_t)(c - 'A' + 10);
        else return false;
        *unit = *unit << 4 | digit;
        in->at++;
    }
    return true;
}

/* Reads the rest of `\uXXXX`, which may be the first half of a pair. */
static bool read_code_point(struct reader *in, uint32_t *point) {
    if (!read_unit(in, point)) return false;
    if (*point >= 0xDC00 && *point <= 0xDFFF) return false;
    if (*point >= 0xD800 && *point <= 0xDBFF) {
        uint32_t low;
        if (!take(in, '\\') || !take(in, 'u') || !read_unit(in, &low)) return false;
        if (low < 0xDC00 || low > 0xDFFF) return false;
        *point = 0x10000 + ((*point - 0xD800) << 10) + (low - 0xDC00);
    }
    return true;
}

/* Appends a byte. A text without bytes is only measured. */
static void put(struct text *text, uint32_t byte) {
    if (text->bytes != NULL) text->bytes[text->length] = (char)byte;
    text->length++;
}

static void put_utf8(struct text *text, uint32_t point) {
    if (point < 0x80) {
        put(text, point);
    } else if (point < 0x800) {
        put(text, 0xC0 | point >> 6);
        put(text, 0x80 | (point & 0x3F));
    } else if (point < 0x10000) {
        put(text, 0xE0 | point >> 12);
        put(text, 0x80 | (point >> 6 & 0x3F));
        put(text, 0x80 | (point & 0x3F));
    } else {
        put(text, 0xF0 | point >> 18);
        put(text, 0x80 | (point >> 12 & 0x3F));
        put(text, 0x80 | (point >> 6 & 0x3F));
        put(text, 0x80 | (point & 0x3F));
    }
}

static bool read_escape(struct reader *in, struct text *text) {
    static const char escapes[] = "\"\\/bfnrt";
    static const char meanings[] = "\"\\/\b\f\n\r\t";
    if (take(in, 'u')) {
        uint32_t point;
        if (!read_code_point(in, &point)) return false;
        put_utf8(text, point);
        return true;
    }
    const char *escape = peek(in) > 0 ? strchr(escapes, peek(in)) : NULL;
    if (escape == NULL) return false;
    put(text, (unsigned char)meanings[escape - escapes]);
    in->at++;
    return true;
}

static bool read_string_into(struct reader *in, struct text *text) {
    if (!take(in, '"')) return false;
    while (!take(in, '"')) {
        if (peek(in) < ' ') return false; /* a control character, or the end */
        if (take(in, '\\')) {
            if (!read_escape(in, text)) return false;
        } else {
            put(text, (unsigned char)*in->at++);
        }
    }
    return true;
}

static bool skip_string(struct reader *in) {
    struct text measured = {NULL, 0};
    return read_string_into(in, &measured);
}

/* Reads a string into new memory. */
static bool read_string(struct reader *in, struct text *text) {
    struct reader ahead = *in;
    struct text measured = {NULL, 0};
    if (!read_string_into(&ahead, &measured)) return false;
    *text = (struct text){malloc(measured.length + 1), 0};
    if (text->bytes == NULL) abort();
    return read_string_into(in, text);
}

static bool read_array(struct reader *in) {
    if (!take(in, '[')) return false;
    skip_space(in);
    if (take(in, ']')) return true;
    do {
        if (!read_value(in)) return false;
    } while (take(in, ','));
    return take(in, ']');
}

static bool is_text(struct text text, const char *expected) {
    return text.length == strlen(expected) && memcmp(text.bytes, expected, text.length) == 0;
}

/* Reads a member, and notes where its value begins if it has this name. */
static bool read_member(struct reader *in, const char *name, const char **value) {
    struct text key;
    skip_space(in);
    if (!read_string(in, &key)) return false;
    bool is_wanted = name != NULL && is_text(key, name);
    free(key.bytes);
    skip_space(in);
    if (!take(in, ':')) return false;
    skip_space(in);
    if (is_wanted) *value = in->at;
    return read_value(in);
}

/* Reads an object, and finds the value of the member `name` in it. No name looks for nothing. */
static bool read_object(struct reader *in, const char *name, const char **value) {
    if (!take(in, '{')) return false;
    skip_space(in);
    if (take(in, '}')) return true;
    do {
        if (!read_member(in, name, value)) return false;
    } while (take(in, ','));
    return take(in, '}');
}

/* Reads a value with the white space around it. */
static bool read_value(struct reader *in) {
    if (in->depth == DEEPEST) return false;
    in->depth++;
    skip_space(in);
    bool is_read;
    switch (peek(in)) {
    case '{': is_read = read_object(in, NULL, NULL); break;
    case '[': is_read = read_array(in); break;
    case '"': is_read = skip_string(in); break;
    case 't': is_read = read_word(in, "true"); break;
    case 'f': is_read = read_word(in, "false"); break;
    case 'n': is_read = read_word(in, "null"); break;
    default: is_read = read_number(in); break;
    }
    skip_space(in);
    in->depth--;
    return is_read;
}

enum json_found json_string_member(struct text input, const char *name, struct text *value) {
    struct reader in = {input.bytes, input.bytes + input.length, 0};
    const char *found = NULL;
    skip_space(&in);
    if (!read_object(&in, name, &found)) return JSON_IS_NO_OBJECT;
    skip_space(&in);
    if (in.at != in.end) return JSON_IS_NO_OBJECT;
    struct reader member = {found, in.end, 0};
    if (found == NULL || !read_string(&member, value)) return JSON_IS_NO_STRING;
    return JSON_IS_STRING;
}
