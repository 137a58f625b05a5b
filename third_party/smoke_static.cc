// A fully static executable with gRPC and TLS: makes a certificate, serves one call with it on a
// free port of the loopback and calls itself. Prints a line of JSON and exits 0 when that works.

#include <grpcpp/grpcpp.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/x509.h>
#include <openssl/x509v3.h>
#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>

#include "absl/strings/str_cat.h"
#include "third_party/smoke.grpc.pb.h"
#include "third_party/smoke.pb.h"

namespace {

constexpr char kHost[] = "millrace";

std::string ReadAll(BIO* bio) {
  char* data = nullptr;
  const long size = BIO_get_mem_data(bio, &data);
  return std::string(data, size);
}

struct KeyPair {
  std::string certificate;
  std::string key;
};

KeyPair MakeKeyPair() {
  EVP_PKEY* pkey = EVP_EC_gen("P-256");
  X509* x509 = X509_new();
  X509_set_version(x509, 2);
  ASN1_INTEGER_set(X509_get_serialNumber(x509), 1);
  X509_gmtime_adj(X509_getm_notBefore(x509), -60);
  X509_gmtime_adj(X509_getm_notAfter(x509), 3600);
  X509_set_pubkey(x509, pkey);
  X509_NAME* name = X509_get_subject_name(x509);
  X509_NAME_add_entry_by_txt(name, "CN", MBSTRING_ASC,
                             reinterpret_cast<const unsigned char*>(kHost), -1, -1, 0);
  X509_set_issuer_name(x509, name);
  const std::string alternative = absl::StrCat("DNS:", kHost);
  X509_EXTENSION* extension =
      X509V3_EXT_conf_nid(nullptr, nullptr, NID_subject_alt_name, alternative.c_str());
  X509_add_ext(x509, extension, -1);
  X509_EXTENSION_free(extension);
  X509_sign(x509, pkey, EVP_sha256());

  BIO* certificate = BIO_new(BIO_s_mem());
  PEM_write_bio_X509(certificate, x509);
  BIO* key = BIO_new(BIO_s_mem());
  PEM_write_bio_PrivateKey(key, pkey, nullptr, nullptr, 0, nullptr, nullptr);
  KeyPair pair{ReadAll(certificate), ReadAll(key)};
  BIO_free(certificate);
  BIO_free(key);
  X509_free(x509);
  EVP_PKEY_free(pkey);
  return pair;
}

class EchoService final : public millrace::smoke::Echo::Service {
  grpc::Status Say(grpc::ServerContext*, const millrace::smoke::EchoRequest* request,
                   millrace::smoke::EchoReply* reply) override {
    reply->set_text(request->text());
    reply->mutable_answered()->set_seconds(1);
    return grpc::Status::OK;
  }
};

}  // namespace

int main(int argc, char** argv) {
  CLI::App app("Millrace's fully static smoke test");
  std::string text = "hello";
  app.add_option("--text", text, "what to send");
  CLI11_PARSE(app, argc, argv);
  spdlog::set_default_logger(spdlog::stderr_logger_st("smoke"));
  spdlog::info("echo {}", text);

  const KeyPair pair = MakeKeyPair();
  grpc::SslServerCredentialsOptions server_options;
  server_options.pem_key_cert_pairs.push_back({pair.key, pair.certificate});
  EchoService service;
  grpc::ServerBuilder builder;
  int port = 0;
  builder.AddListeningPort("127.0.0.1:0", grpc::SslServerCredentials(server_options), &port);
  builder.RegisterService(&service);
  const std::unique_ptr<grpc::Server> server = builder.BuildAndStart();
  if (server == nullptr) return 2;

  grpc::SslCredentialsOptions client_options;
  client_options.pem_root_certs = pair.certificate;
  grpc::ChannelArguments arguments;
  arguments.SetSslTargetNameOverride(kHost);
  const auto stub = millrace::smoke::Echo::NewStub(grpc::CreateCustomChannel(
      absl::StrCat("127.0.0.1:", port), grpc::SslCredentials(client_options), arguments));
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(10));
  millrace::smoke::EchoRequest request;
  request.set_text(text);
  millrace::smoke::EchoReply reply;
  const grpc::Status status = stub->Say(&context, request, &reply);
  server->Shutdown(std::chrono::system_clock::now());
  const nlohmann::json line = {
      {"ok", status.ok()}, {"error", status.error_message()}, {"text", reply.text()}};
  std::printf("%s\n", line.dump().c_str());
  return status.ok() && reply.text() == text ? 0 : 1;
}
