#include "core/net/openssl.h"

#include <openssl/err.h>

#include <cstddef>

namespace millrace {

std::string TakeOpenSslError() {
  char text[256] = "unknown error";
  const unsigned long code = ERR_peek_error();
  if (code != 0) ERR_error_string_n(code, text, sizeof(text));
  ERR_clear_error();
  return text;
}

std::string BioText(BIO* bio) {
  char* data = nullptr;
  const long size = BIO_get_mem_data(bio, &data);
  return size <= 0 ? std::string() : std::string(data, static_cast<size_t>(size));
}

}  // namespace millrace
