// A driver in C: runs three nodes on this machine and prints what they print.
//
//   sum NODE_PROGRAM

#include <stdio.h>

#include "millrace/c/cluster.h"

static void PrintLine(const char* node, const char* line, void* user_data) {
  (void)user_data;
  printf("%s: %s\n", node, line);
}

int main(int argc, char** argv) {
  if (argc != 2) {
    fprintf(stderr, "usage: %s NODE_PROGRAM\n", argv[0]);
    return 2;
  }
  const millrace_cluster_options options = {
      .struct_size = sizeof(options),
      .program = argv[1],
      .num_executors = 3,
      .observer = {.on_output = PrintLine},
  };
  millrace_cluster* cluster = NULL;
  millrace_error error = MILLRACE_ERROR_INIT;
  int32_t code = millrace_cluster_run(&options, &cluster, &error);
  if (code == MILLRACE_OK) code = millrace_cluster_shutdown(cluster, NULL, &error);
  if (code != MILLRACE_OK) fprintf(stderr, "%s: %s\n", argv[0], error.message);
  millrace_error_clear(&error);
  millrace_cluster_free(cluster);
  return code == MILLRACE_OK ? 0 : 1;
}
