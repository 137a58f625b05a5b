#include "core/proto/fields_json.h"

#include <cstdint>
#include <limits>
#include <string>
#include <utility>

#include "core/base/json.h"
#include "core/base/log.h"
#include "google/protobuf/descriptor.h"
#include "millrace/status_macros.h"

namespace millrace {

using google::protobuf::Descriptor;
using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using google::protobuf::Reflection;

absl::Status ReadFields(const Json& object, absl::string_view where, Message* message) {
  const Descriptor* const descriptor = message->GetDescriptor();
  const Reflection* const reflection = message->GetReflection();
  for (int i = 0; i < descriptor->field_count(); ++i) {
    const FieldDescriptor* const field = descriptor->field(i);
    const std::string& name = field->name();
    if (!object.contains(name)) continue;
    switch (field->cpp_type()) {
      case FieldDescriptor::CPPTYPE_UINT64: {
        constexpr int64_t kMax = std::numeric_limits<int64_t>::max();
        MILLRACE_ASSIGN_OR_RETURN(const int64_t value, GetIntInRange(object, name, 0, kMax, where));
        reflection->SetUInt64(message, field, static_cast<uint64_t>(value));
        break;
      }
      case FieldDescriptor::CPPTYPE_UINT32: {
        constexpr int64_t kMax = std::numeric_limits<uint32_t>::max();
        MILLRACE_ASSIGN_OR_RETURN(const int64_t value, GetIntInRange(object, name, 0, kMax, where));
        reflection->SetUInt32(message, field, static_cast<uint32_t>(value));
        break;
      }
      case FieldDescriptor::CPPTYPE_BOOL: {
        MILLRACE_ASSIGN_OR_RETURN(const bool value, GetBoolOr(object, name, false, where));
        reflection->SetBool(message, field, value);
        break;
      }
      case FieldDescriptor::CPPTYPE_STRING: {
        MILLRACE_ASSIGN_OR_RETURN(std::string value, GetString(object, name, where));
        reflection->SetString(message, field, std::move(value));
        break;
      }
      default:
        MILLRACE_CHECK(false) << field->full_name() << " is no counter";
    }
  }
  return absl::OkStatus();
}

OrderedJson FieldsToJson(const Message& message) {
  const Descriptor* const descriptor = message.GetDescriptor();
  const Reflection* const reflection = message.GetReflection();
  OrderedJson json = OrderedJson::object();
  for (int i = 0; i < descriptor->field_count(); ++i) {
    const FieldDescriptor* const field = descriptor->field(i);
    if (field->is_repeated()) continue;
    switch (field->cpp_type()) {
      case FieldDescriptor::CPPTYPE_MESSAGE:
        break;
      case FieldDescriptor::CPPTYPE_INT32:
        json[field->name()] = reflection->GetInt32(message, field);
        break;
      case FieldDescriptor::CPPTYPE_INT64:
        json[field->name()] = reflection->GetInt64(message, field);
        break;
      case FieldDescriptor::CPPTYPE_UINT64:
        json[field->name()] = reflection->GetUInt64(message, field);
        break;
      case FieldDescriptor::CPPTYPE_UINT32:
        json[field->name()] = reflection->GetUInt32(message, field);
        break;
      case FieldDescriptor::CPPTYPE_BOOL:
        json[field->name()] = reflection->GetBool(message, field);
        break;
      case FieldDescriptor::CPPTYPE_STRING:
        json[field->name()] = reflection->GetString(message, field);
        break;
      default:
        MILLRACE_CHECK(false) << field->full_name() << " is no counter";
    }
  }
  return json;
}

}  // namespace millrace
