// A node in C: adds its number to what all nodes add up, and prints the sum.

#include <inttypes.h>
#include <stdio.h>

#include "millrace/c/millrace.h"

static int32_t Main(millrace_node* node, void* user_data, millrace_error* error) {
  (void)user_data;
  millrace_node_info info = {.struct_size = sizeof(info)};
  int64_t sum = 0;
  int32_t code = millrace_node_describe(node, &info, error);
  if (code == MILLRACE_OK) code = millrace_kv_add(node, "sum", info.rank + 1, NULL, error);
  if (code == MILLRACE_OK) code = millrace_barrier(node, "added", 60000, error);
  if (code == MILLRACE_OK) code = millrace_kv_add(node, "sum", 0, &sum, error);
  if (code == MILLRACE_OK) printf("the sum is %" PRId64 "\n", sum);
  return code;
}

int main(void) { return millrace_run_node(Main, NULL); }
