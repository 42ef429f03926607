/* Reads one string out of a JSON object. */

#ifndef JSON_H
#define JSON_H

#include <stddef.h>

/* A text that may contain zero bytes. */
struct text {
    char *bytes;
    size_t length;
};

enum json_found {
    JSON_IS_NO_OBJECT, /* the input is not one JSON object */
    JSON_IS_NO_STRING, /* the member is absent or something else */
    JSON_IS_STRING,
};

/* Looks for the member `name` of the object in `input`. A string is decoded into `value`, whose
   bytes the caller frees. Of several members with this name the last one counts. */
enum json_found json_string_member(struct text input, const char *name, struct text *value);

#endif
