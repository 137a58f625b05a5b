#include "core/gpu/json_line.h"

#include <errno.h>
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void Append(JsonLine* line, const char* bytes, size_t size) {
  if (line->size + size > line->capacity) {
    const size_t capacity = 2 * (line->size + size) + 1024;
    char* grown = realloc(line->bytes, capacity);
    if (grown == NULL) abort();
    line->bytes = grown;
    line->capacity = capacity;
  }
  memcpy(line->bytes + line->size, bytes, size);
  line->size += size;
}

static void AppendQuoted(JsonLine* line, const char* text) {
  Append(line, "\"", 1);
  for (const unsigned char* at = (const unsigned char*)text; *at != '\0'; ++at) {
    if (*at >= 0x20 && *at < 0x7f && *at != '"' && *at != '\\') {
      Append(line, (const char*)at, 1);
    } else {
      char escaped[8];
      Append(line, escaped, (size_t)snprintf(escaped, sizeof(escaped), "\\u%04x", *at));
    }
  }
  Append(line, "\"", 1);
}

static void Key(JsonLine* line, const char* key) {
  if (line->size > 0) {
    const char last = line->bytes[line->size - 1];
    if (last != '{' && last != '[') Append(line, ",", 1);
  }
  if (key == NULL) return;
  AppendQuoted(line, key);
  Append(line, ":", 1);
}

void JsonOpen(JsonLine* line, const char* key, char bracket) {
  Key(line, key);
  Append(line, &bracket, 1);
}

void JsonClose(JsonLine* line, char bracket) { Append(line, &bracket, 1); }

void JsonText(JsonLine* line, const char* key, const char* text) {
  Key(line, key);
  AppendQuoted(line, text);
}

void JsonInteger(JsonLine* line, const char* key, unsigned long long value) {
  char digits[32];
  Key(line, key);
  Append(line, digits, (size_t)snprintf(digits, sizeof(digits), "%llu", value));
}

void JsonSigned(JsonLine* line, const char* key, long long value) {
  char digits[32];
  Key(line, key);
  Append(line, digits, (size_t)snprintf(digits, sizeof(digits), "%lld", value));
}

void JsonNumber(JsonLine* line, const char* key, double value) {
  char digits[64];
  if (!isfinite(value) || fabs(value) > 1e18) return;
  Key(line, key);
  Append(line, digits, (size_t)snprintf(digits, sizeof(digits), "%.2f", value));
}

void JsonBool(JsonLine* line, const char* key, bool value) {
  Key(line, key);
  Append(line, value ? "true" : "false", value ? 4 : 5);
}

bool JsonSend(JsonLine* line, int fd) {
  static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
  Append(line, "\n", 1);
  size_t done = 0;
  bool ok = true;
  pthread_mutex_lock(&lock);
  while (ok && done < line->size) {
    const ssize_t wrote = write(fd, line->bytes + done, line->size - done);
    if (wrote > 0) {
      done += (size_t)wrote;
    } else if (wrote == 0 || errno != EINTR) {
      ok = false;
    }
  }
  pthread_mutex_unlock(&lock);
  line->size = 0;
  return ok;
}
