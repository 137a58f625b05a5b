/* File: core/gpu/json_line.h
 *
 * One JSON object on one line, written member by member, then in one piece to a descriptor.
 *
 *   JsonLine line = {0};
 *   JsonOpen(&line, NULL, '{');
 *   JsonText(&line, "type", "ready");
 *   JsonClose(&line, '}');
 *   JsonSend(&line, 1);
 *
 * A NULL key is for elements of an array. Thread safety: none; JsonSend() serialises its writes.
 */

#ifndef CORE_GPU_JSON_LINE_H_
#define CORE_GPU_JSON_LINE_H_

#include <stdbool.h>
#include <stddef.h>

typedef struct {
  char* bytes;
  size_t size;
  size_t capacity;
} JsonLine;

void JsonOpen(JsonLine* line, const char* key, char bracket);
void JsonClose(JsonLine* line, char bracket);
/* Bytes outside of printable ASCII become \u00XX, so that the line is valid whatever the text is.
 */
void JsonText(JsonLine* line, const char* key, const char* text);
void JsonInteger(JsonLine* line, const char* key, unsigned long long value);
void JsonSigned(JsonLine* line, const char* key, long long value);
/* Two decimals; left out if it is not finite. */
void JsonNumber(JsonLine* line, const char* key, double value);
void JsonBool(JsonLine* line, const char* key, bool value);

/* Writes the line and empties it. False if the reader is gone. Blocks while the reader does not
 * read; lines of several threads do not mix. */
bool JsonSend(JsonLine* line, int fd);

#endif /* CORE_GPU_JSON_LINE_H_ */
