// Linked into every program under --config=tsan (see .bazelrc). The system's libraries are not
// instrumented, so accesses made inside of them through memcpy and friends look like races. Their
// locks are seen, which keeps the order between our own threads. The price: a race of our code is
// not reported when gRPC's thread called it, so test classes that reactors use on plain threads
// too.
extern "C" const char* __tsan_default_suppressions();

extern "C" const char* __tsan_default_suppressions() {
  return "race:libabsl_\n"
         "race:libgrpc\n"
         "race:libgpr\n"
         "race:zmq::\n"
         "race:libsodium\n"  // libzmq's CURVE deciphers into its messages
         "race:libcrypto\n"
         "race:libssl\n"
         "race:libcares\n"
         "race:libprotobuf\n"
         "race:libupb\n"
         "race:^grpc_core::\n"
         "race:^grpc::internal::\n"
         // Counts its references inside libabsl_status, and frees from an inline function.
         "race:^absl::*Status::Unref\n"
         "race:^grpc_event_engine::\n"
         // Asks which socket a descriptor means by now: another thread may just have been given the
         // number, and for that it looks at what fstat() says.
         "race:SocketId\n"
         "mutex:libabsl_\n"
         "deadlock:libabsl_\n";
}
