#include "testing/compatibility/proto_fields.h"

#include "absl/strings/str_cat.h"
#include "core/proto/adopt.pb.h"
#include "core/proto/coordinator.pb.h"
#include "core/proto/feed_gateway.pb.h"
#include "core/proto/operator.pb.h"
#include "core/proto/sample.pb.h"
#include "core/proto/watch.pb.h"
#include "dashboard/source/recording.pb.h"
#include "google/protobuf/descriptor.h"

namespace millrace::compatibility {
namespace {

using google::protobuf::Descriptor;
using google::protobuf::EnumDescriptor;
using google::protobuf::FieldDescriptor;
using google::protobuf::FileDescriptor;
using google::protobuf::MethodDescriptor;
using google::protobuf::ServiceDescriptor;

std::string TypeOf(const FieldDescriptor& field) {
  std::string type = field.type_name();
  if (field.message_type() != nullptr) type = field.message_type()->full_name();
  if (field.enum_type() != nullptr) type = field.enum_type()->full_name();
  return absl::StrCat(field.is_repeated() ? "repeated " : "",
                      field.has_optional_keyword() ? "optional " : "",
                      field.real_containing_oneof() != nullptr
                          ? absl::StrCat("oneof ", field.real_containing_oneof()->name(), " ")
                          : "",
                      type);
}

void AddEnum(const EnumDescriptor& type, std::string* text) {
  for (int i = 0; i < type.value_count(); ++i) {
    absl::StrAppend(text, "value ", type.full_name(), " ", type.value(i)->number(), " ",
                    type.value(i)->name(), "\n");
  }
}

void AddMessage(const Descriptor& message, std::string* text) {
  for (int i = 0; i < message.field_count(); ++i) {
    const FieldDescriptor& field = *message.field(i);
    absl::StrAppend(text, "field ", message.full_name(), " ", field.number(), " ", field.name(),
                    " ", TypeOf(field), "\n");
  }
  for (int i = 0; i < message.enum_type_count(); ++i) AddEnum(*message.enum_type(i), text);
  for (int i = 0; i < message.nested_type_count(); ++i) AddMessage(*message.nested_type(i), text);
}

void AddService(const ServiceDescriptor& service, std::string* text) {
  for (int i = 0; i < service.method_count(); ++i) {
    const MethodDescriptor& method = *service.method(i);
    absl::StrAppend(text, "method ", service.full_name(), "/", method.name(),
                    method.client_streaming() ? " stream " : " ", method.input_type()->full_name(),
                    method.server_streaming() ? " stream " : " ", method.output_type()->full_name(),
                    "\n");
  }
}

void AddFile(const FileDescriptor& file, std::string* text) {
  for (int i = 0; i < file.message_type_count(); ++i) AddMessage(*file.message_type(i), text);
  for (int i = 0; i < file.enum_type_count(); ++i) AddEnum(*file.enum_type(i), text);
  for (int i = 0; i < file.service_count(); ++i) AddService(*file.service(i), text);
}

}  // namespace

std::string ProtoFieldsText() {
  std::string text;
  for (const Descriptor* of_each :
       {v1::Hold::descriptor(), v1::Register::descriptor(), v1::LookupRequest::descriptor(),
        v1::StopClusterRequest::descriptor(), v1::NodeSample::descriptor(),
        v1::WatchUpdate::descriptor(), v1::RecordedUpdate::descriptor()}) {
    AddFile(*of_each->file(), &text);
  }
  return text;
}

}  // namespace millrace::compatibility
