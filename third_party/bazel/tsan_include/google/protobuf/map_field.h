// Before Protobuf's own header of this name, under --config=tsan only (see .bazelrc). That one
// gives every map field eight bytes more where __SANITIZE_THREAD__ is defined, of which the
// system's library knows nothing: it would take one member for another, and free an arena as a
// list. Gone with the first Protobuf whose header has no such members.
#pragma push_macro("__SANITIZE_THREAD__")
#undef __SANITIZE_THREAD__
#include_next <google/protobuf/map_field.h>
#pragma pop_macro("__SANITIZE_THREAD__")
