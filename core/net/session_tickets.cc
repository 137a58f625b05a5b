#include "core/net/session_tickets.h"

#include <openssl/conf.h>
#include <openssl/err.h>
#include <openssl/ssl.h>

#include "core/net/openssl.h"

namespace millrace {
namespace {

using UniqueConf = UniqueOpenSsl<CONF, NCONF_free>;
using UniqueContext = UniqueOpenSsl<SSL_CTX, SSL_CTX_free>;

constexpr char kSystemDefault[] = "system_default";
constexpr char kConfiguration[] =
    "openssl_conf = modules\n"
    "[modules]\n"
    "ssl_conf = names\n"
    "[names]\n"
    "system_default = commands\n"
    "[commands]\n"
    "NumTickets = 0\n";

bool HasSystemDefault() {
  const UniqueContext context(SSL_CTX_new(TLS_server_method()));
  return context != nullptr && SSL_CTX_config(context.get(), kSystemDefault) == 1;
}

bool Configure() {
  // The process's own configuration comes first: loaded later it would replace this one.
  OPENSSL_init_ssl(OPENSSL_INIT_LOAD_CONFIG, nullptr);
  if (!HasSystemDefault()) {
    const UniqueBio text(BIO_new_mem_buf(kConfiguration, -1));
    const UniqueConf configuration(NCONF_new(nullptr));
    if (text != nullptr && configuration != nullptr &&
        NCONF_load_bio(configuration.get(), text.get(), nullptr) == 1) {
      CONF_modules_load(configuration.get(), nullptr, 0);  // a failure costs time only
    }
  }
  ERR_clear_error();
  return true;
}

}  // namespace

void StopSessionTickets() { [[maybe_unused]] static const bool configured = Configure(); }

}  // namespace millrace
