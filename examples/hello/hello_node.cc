// The smallest node program: it says who it is.

#include <cstdio>

#include "millrace/node.h"

int main(int argc, char** argv) {
  return millrace::RunNode(argc, argv, [](millrace::NodeContext& ctx) {
    std::printf("I am %s at %s, rank %d of %d\n", ctx.name().c_str(), ctx.address().c_str(),
                ctx.rank(), ctx.num_workers());
    return absl::OkStatus();
  });
}
