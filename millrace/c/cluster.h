// File: millrace/c/cluster.h
//
// The C interface of a driver: starts a cluster of node programs, on this machine or on agents that
// listen elsewhere, feeds it, takes results back, and ends it. Library: libmillrace_cluster.so. The
// rules on errors, structs, text, durations and threads are those of millrace/c/millrace.h, whose
// libmillrace.so is needed too: it frees errors and texts.
//
//   millrace_cluster_options options = {.struct_size = sizeof(options), .program = "./node",
//                                       .num_executors = 2, .input_mode = MILLRACE_INPUT_FEED,
//                                       .failure = {.restart = {.max_restarts = 3}}};
//   millrace_cluster* cluster = NULL;
//   millrace_source* source = NULL;
//   int32_t code = millrace_source_split(&stream, 2, &source, &error);  // of an ArrowArrayStream
//   if (code == MILLRACE_OK) code = millrace_cluster_run(&options, &cluster, &error);
//   if (code == MILLRACE_OK) code = millrace_cluster_train(cluster, source, NULL, NULL, &error);
//   if (code == MILLRACE_OK) code = millrace_cluster_shutdown(cluster, NULL, &error);
//   millrace_cluster_free(cluster);
//   millrace_source_free(source);
#ifndef MILLRACE_C_CLUSTER_H_
#define MILLRACE_C_CLUSTER_H_

#include "millrace/c/millrace.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct millrace_cluster millrace_cluster;
typedef struct millrace_source millrace_source;

// ---- where rows come from -----------------------------------------------------------------------

// Reads the streams, each of them one partition, into memory now; all are taken over, also by a
// failure. At least one, with a batch in one of them. INVALID_ARGUMENT: the schemas differ, or a
// stream is no table that a feed carries; or the error of a stream.
MILLRACE_API int32_t millrace_source_from_memory(struct ArrowArrayStream* streams,
                                                 int32_t num_streams, millrace_source** source,
                                                 millrace_error* error);
// Reads one stream into memory now, as above, and divides its rows, in their order, into
// `num_partitions` whose sizes differ by one at most; fewer where there are fewer rows.
MILLRACE_API int32_t millrace_source_split(struct ArrowArrayStream* stream, int32_t num_partitions,
                                           millrace_source** source, millrace_error* error);

// One batch (`schema` is that of a struct, `array` its rows) as a stream. All are taken over, also
// by a failure.
MILLRACE_API int32_t millrace_stream_of_batch(struct ArrowSchema* schema, struct ArrowArray* array,
                                              struct ArrowArrayStream* out, millrace_error* error);

// Fills *out with the rows of one partition, from its first. Called from any thread, and more than
// once: in every epoch, and after the death of a node.
typedef int32_t (*millrace_open_partition)(int32_t partition, int64_t data_epoch, void* user_data,
                                           struct ArrowArrayStream* out, millrace_error* error);
// `deterministic` is 1 if equal arguments mean equal rows in equal order; only then does training
// go on in the middle of a partition after a failure.
MILLRACE_API int32_t millrace_source_from_function(int32_t num_partitions,
                                                   millrace_open_partition open_partition,
                                                   void* user_data, int32_t deterministic,
                                                   millrace_source** source, millrace_error* error);
// Calls under way hold the source by themselves. NULL is nothing.
MILLRACE_API void millrace_source_free(millrace_source* source);

// ---- stopping -----------------------------------------------------------------------------------

// Ends a cluster, also one that is still starting, or one call, from another thread: see the
// members `stop` below. For one cluster, or for one call at a time. Any thread may use it, and free
// it at any time.
typedef struct millrace_stop millrace_stop;
MILLRACE_API millrace_stop* millrace_stop_new(void);
// NULL is nothing.
MILLRACE_API void millrace_stop_free(millrace_stop* stop);
// What it was given to returns CANCELLED with `reason`, the first one. A cluster asks every node to
// end (`now` is 1: kills them), and millrace_cluster_shutdown() waits for them. Does not wait.
MILLRACE_API void millrace_stop_request(millrace_stop* stop, const char* reason, int32_t now);

// ---- a cluster ----------------------------------------------------------------------------------

// A node as it is now. All of it lives as long as the callback runs.
typedef struct millrace_slot {
  size_t struct_size;
  int32_t executor_id;
  const char* job_name;  // "worker"
  int32_t task_index;
  // "requested", "started", "connected", "registered", "ready", "running", "draining" (it was asked
  // to end), and one of the ends: "finished", "failed", "lost" (its agent does not answer).
  const char* state;
  int32_t attempt;
  const char* host;     // "" before its agent has connected, as is the address
  const char* address;  // "host:port", its reserved port
  int64_t pid;          // 0: no program runs
  const char* error;    // why it failed or was lost, otherwise ""
} millrace_slot;

// A node that failed. All of it lives as long as the callback runs.
typedef struct millrace_failure {
  size_t struct_size;
  const char* node;  // "worker:1"
  int32_t executor_id;
  int32_t attempt;
  const char* host;                 // "" if unknown
  int64_t pid;                      // 0: none ran
  const char* exit_status;          // "exit code 3", "signal 9 (SIGKILL)"; "" if no process ended
  const char* const* stderr_lines;  // its last, oldest first
  size_t num_stderr_lines;
} millrace_failure;

// A failure that is healed: another attempt of the node follows.
typedef struct millrace_restart {
  size_t struct_size;
  const millrace_failure* failure;
  int64_t after_ms;  // from the failure to the next attempt
  int32_t used;      // restarts, this one included, within the policy's window
  int32_t max;       // of the policy
} millrace_restart;

// How often a node that failed is started again.
typedef struct millrace_restart_policy {
  int32_t max_restarts;        // of each node, within the window; its next failure is the cluster's
  int64_t window_ms;           // restarts longer ago do not count any more. 0: all count
  int64_t initial_backoff_ms;  // doubled with every failure that follows on a short run. 0: 1,000
  int64_t max_backoff_ms;      // 0: 30,000
  int64_t reserved[2];
} millrace_restart_policy;

typedef struct millrace_job_restart {
  size_t struct_size;
  const char* job;                 // "worker"
  millrace_restart_policy policy;  // all of it: nothing comes from that of the other jobs
} millrace_job_restart;

// A host on which `failures` nodes failed within the window gets no restarts for the duration.
typedef struct millrace_quarantine_policy {
  int32_t failures;     // 0: 3
  int64_t window_ms;    // 0: 60,000
  int64_t duration_ms;  // 0: 300,000
  int64_t reserved[2];
} millrace_quarantine_policy;

typedef struct millrace_job_gpus {
  size_t struct_size;
  const char* job;
  int32_t gpus;  // of each of its nodes. 0: they see none
} millrace_job_gpus;

// A program beside one node: started once the node runs, killed with it. How it ends is no failure.
typedef struct millrace_sidecar {
  size_t struct_size;
  const char* name;         // 1 to 40 of a-z 0-9 -
  const char* program;      // a path on the node's host, or a name that is looked up in PATH there
  const char* const* args;  // "{host}", "{port}" (reserved for it) and "{log_dir}" are replaced
  size_t num_args;
  const char* const* env;  // "NAME=value", added to the agent's environment
  size_t num_env;
  const char* node;  // "worker:0". NULL: the chief or master, worker:0 in clusters without
} millrace_sidecar;

// Agents that listen already (`millrace-agent agent --listen`, docs/hosts.md), on other hosts or in
// pods: a resolver says where.
typedef struct millrace_agents {
  size_t struct_size;
  const char* resolver;  // its description in JSON (millrace/resolver.h): {"type": "static", ...}
  // The secret that the agents have: one of a file and a folder.
  const char* secret_file;
  const char* secret_dir;
  const char* bind_address;  // where the coordinator listens. NULL: "0.0.0.0"
  const char* driver_host;   // by which agents reach it. NULL: as they see this host
  int64_t poll_interval_ms;  // how often a source that cannot push is asked. 0: 5,000
  int32_t fixed_members;     // 1: a node without an agent is an error at once
  int32_t ship;              // 1: `program` is a file of this host, which is sent to every agent
} millrace_agents;

// What every node gets, and what runs beside it.
typedef struct millrace_cluster_node_options {
  const char* working_dir;  // NULL: this process's
  const char* default_fs;   // NULL: "file://"
  int32_t keep_port;        // 1: nodes inherit the socket of their reserved port
  int32_t gpus_per_node;
  const millrace_job_gpus* const* gpus_by_job;  // of the jobs whose number is not gpus_per_node
  size_t num_gpus_by_job;
  int64_t log_bytes_per_second;  // of its output that a node may send to on_output. 0: 64 KiB
  const millrace_sidecar* const* sidecars;
  size_t num_sidecars;
  int64_t reserved[4];
} millrace_cluster_node_options;

// How nodes are fed.
typedef struct millrace_cluster_feed_options {
  const char* const* queues;  // none: "input", "output", "error"
  size_t num_queues;
  const char* port_range;  // "9000-9100": where nodes are fed over TCP. NULL: any
  int64_t budget_bytes;    // what one node may hold of the feed. 0: 256 MiB
  int32_t curve_only;      // 1: nodes of this host are fed over CURVE too. Slower
  // 0 or 1: this process writes rows into memory of nodes of its host, where the system lets it;
  // -1: rows go through sockets.
  int64_t shared_memory;
  int64_t reserved[3];
} millrace_cluster_feed_options;

// What becomes of nodes that fail, and how long one may take to end.
typedef struct millrace_cluster_failure_options {
  millrace_restart_policy restart;  // of every job that has none in restart_by_job
  const millrace_job_restart* const* restart_by_job;
  size_t num_restart_by_job;
  millrace_quarantine_policy quarantine;
  int64_t stop_grace_ms;    // how long a node that was asked to stop may take. 0: 5,000
  int64_t stop_timeout_ms;  // how long a node may stay stopped by a signal. 0: 10,000
  int64_t reserved[4];
} millrace_cluster_failure_options;

// Hears what happens. All but on_failure are called from one thread, in order; none may call the
// cluster. NULL: nobody hears it.
typedef struct millrace_cluster_observer {
  void* user_data;
  void (*on_output)(const char* node, const char* line, void* user_data);
  void (*on_metric)(const char* node, const char* name, int64_t step, double value,
                    void* user_data);
  // Once, from any thread, before the first call returns that fails for it: the node whose end is
  // the error of the cluster.
  void (*on_failure)(const millrace_failure* failure, void* user_data);
  // A node failed and is started again. NULL: a warning on stderr.
  void (*on_restart)(const millrace_restart* restart, void* user_data);
  // Something of a node has changed: its state, address, process.
  void (*on_slot)(const millrace_slot* slot, void* user_data);
  int64_t reserved[2];
} millrace_cluster_observer;

enum millrace_input_mode {
  MILLRACE_INPUT_DIRECT = 0,  // nodes read their own data
  MILLRACE_INPUT_FEED = 1,    // the driver feeds chief, master and workers
};

// The names and groups are those of C++ (millrace/cluster_options.h). A group has no struct_size:
// `reserved`, which is zero, is its room to grow.
typedef struct millrace_cluster_options {
  size_t struct_size;
  // The executable of the nodes: a file of this host, or, without a slash, a name that is looked up
  // in PATH. Its arguments after argv[0], and what is added to its environment: "NAME=value".
  const char* program;
  const char* const* args;
  size_t num_args;
  const char* const* env;
  size_t num_env;
  // The executable millrace-agent. NULL: $MILLRACE_AGENT, beside this program, or in PATH.
  const char* agent_path;
  int32_t num_executors;  // nodes in all. 0: 1, or see `agents`
  int32_t num_ps;         // the first of them are parameter servers
  // "chief" or "master": the role of the next one. NULL: worker:0 is first.
  const char* master_node;
  int32_t eval_node;               // 1: the next one evaluates
  int32_t input_mode;              // a millrace_input_mode
  const char* log_dir;             // of the nodes' output. NULL: none is kept
  int32_t tensorboard;             // 1: TensorBoard on log_dir beside the first fed node
  int64_t reservation_timeout_ms;  // how long the start may take. 0: 600,000
  millrace_cluster_node_options node;
  millrace_cluster_feed_options feed;
  millrace_cluster_failure_options failure;
  millrace_cluster_observer observer;
  const char* coordinator_port_range;  // "9000-9100". NULL: any
  int32_t no_cluster_file;             // 1: dashboard and CLI do not find the cluster
  int32_t progress;                    // on stderr. 0: if that is a terminal; 1: always; -1: never
  millrace_stop* stop;                 // NULL: none but millrace_cluster_stop()
  // NULL: agents of this host, which are started for the cluster. Otherwise, where num_executors is
  // 0, the cluster has the nodes that the resolver names; it is asked then, and num_ps, master_node
  // and eval_node are not looked at.
  const millrace_agents* agents;
  const char* name;  // what people see of it beside its id, at most 64 bytes. NULL: nothing
} millrace_cluster_options;

// Starts the nodes and returns when all run. Blocks. A failure leaves nothing behind.
// INVALID_ARGUMENT: options that make no sense; NOT_FOUND: no millrace-agent, or no program;
// DEADLINE_EXCEEDED names the nodes that did not come; or the failure of a node (ABORTED,
// UNAVAILABLE).
MILLRACE_API int32_t millrace_cluster_run(const millrace_cluster_options* options,
                                          millrace_cluster** cluster, millrace_error* error);
// Ends at once what was not shut down. NULL is nothing.
MILLRACE_API void millrace_cluster_free(millrace_cluster* cluster);

// Lives as long as the cluster.
MILLRACE_API const char* millrace_cluster_id(const millrace_cluster* cluster);
// As millrace_node_cluster_spec(). Free *json with millrace_free().
MILLRACE_API int32_t millrace_cluster_spec(const millrace_cluster* cluster, char** json,
                                           millrace_error* error);
// Every node as it is now, by executor id: a JSON array of objects with executor_id, job_name,
// task_index, state ("running"), attempt, host, address, pid (0 if no program runs). Free *json
// with millrace_free().
MILLRACE_API int32_t millrace_cluster_nodes(const millrace_cluster* cluster, char** json,
                                            millrace_error* error);
// Where its coordinator listens, host:port. Lives as long as the cluster.
MILLRACE_API const char* millrace_cluster_address(const millrace_cluster* cluster);
// "" until TensorBoard takes connections, or where there is none. Free *url with millrace_free().
MILLRACE_API int32_t millrace_cluster_tensorboard_url(const millrace_cluster* cluster, char** url,
                                                      millrace_error* error);

typedef struct millrace_feed_call {
  size_t struct_size;
  int32_t num_epochs;       // training only. 0: 1
  int32_t end_of_feed;      // training only. 1: the queue ends after this call
  int64_t feed_timeout_ms;  // the longest time without progress. 0: 600,000
  const char* queue;        // NULL: "input"
  int64_t batch_bytes;      // of the rows in a message. 0: 1 MiB
  millrace_stop* stop;      // ends this call; the cluster goes on. NULL: none
} millrace_feed_call;

typedef struct millrace_train_result {
  size_t struct_size;
  int64_t rows;        // that programs have used, in all epochs
  int64_t rows_refed;  // that were fed again although a node had them: perhaps used twice
  int64_t elapsed_ms;
  int32_t terminated;    // 1: no node reads the queue any more; rows may be unread
  int32_t exactly_once;  // 1: it is known that every row was used exactly once
  // With `equal` of millrace_feed_options, otherwise 0: rows that are in no batch (nor in `rows`),
  // and rows that were there once more to fill one.
  int64_t dropped_rows;
  int64_t repeated_rows;
  // The same by node, or NULL: [{"node": "worker:0", "dropped_rows": 3, "repeated_rows": 0}, ...].
  // Free it with millrace_free().
  char* equal_nodes;
} millrace_train_result;

// Feeds every row of `source` to the fed nodes and returns when all are acknowledged. `call` and
// `result` may be NULL. Blocks. FAILED_PRECONDITION: the cluster is not fed, or the queue has
// ended; NOT_FOUND: no such queue; DEADLINE_EXCEEDED: no progress; CANCELLED:
// millrace_cluster_stop(), or a `stop`; or the failure of a node, or of the source.
MILLRACE_API int32_t millrace_cluster_train(millrace_cluster* cluster,
                                            const millrace_source* source,
                                            const millrace_feed_call* call,
                                            millrace_train_result* result, millrace_error* error);

// Feeds `source` while *results is read: one row of results for each of its rows, in the order of
// the rows and partitions. Blocks until the first are there. While nobody reads, nodes are fed
// until about 64 MiB of results wait, and then answer no other call.
// Releasing the stream ends the inference, also before the last results, and waits until `source`
// is not read any more; the cluster goes on. It may outlive the cluster, with which it ends:
// CANCELLED, or why the cluster failed. Errors as training, and FAILED_PRECONDITION naming rows
// that have not got one result, from here or from the stream; then millrace_stream_error() has the
// code. `call->stop` ends the stream too.
MILLRACE_API int32_t millrace_cluster_inference(millrace_cluster* cluster,
                                                const millrace_source* source,
                                                const millrace_feed_call* call,
                                                struct ArrowArrayStream* results,
                                                millrace_error* error);

// What the last get_next() of such a stream came to, of which it has told an errno value and a
// text: the code, and the same text. INVALID_ARGUMENT too if the stream is released, or none that
// millrace_cluster_inference() has filled.
MILLRACE_API int32_t millrace_stream_error(const struct ArrowArrayStream* stream,
                                           millrace_error* error);

// Ends what nodes do with a queue (NULL: "input"), training or inference: their feed ends once what
// was fed is read. A program that has trained may serve inference on the queue afterwards.
MILLRACE_API int32_t millrace_cluster_end_feed(millrace_cluster* cluster, const char* queue,
                                               millrace_error* error);

typedef struct millrace_shutdown {
  size_t struct_size;
  int64_t grace_ms;    // for workers to end after the end of their data, and then for an evaluator,
                       // which is stopped then. 0: as long as `timeout_ms` (an evaluator: none)
  int64_t timeout_ms;  // for all of it. 0: 72 hours
} millrace_shutdown;

// Ends all queues, waits for the workers, then stops ps and evaluator. `options` may be NULL.
// Blocks. Returns the first failure of any node, however late, or DEADLINE_EXCEEDED naming who had
// to be stopped. Later calls return the same.
MILLRACE_API int32_t millrace_cluster_shutdown(millrace_cluster* cluster,
                                               const millrace_shutdown* options,
                                               millrace_error* error);

// Asks every node to end (`now` is 1: kills them); calls under way return CANCELLED with `reason`.
// Does not wait: millrace_cluster_shutdown() does. As millrace_stop_request() of its options.
MILLRACE_API void millrace_cluster_stop(millrace_cluster* cluster, const char* reason, int32_t now);

#ifdef __cplusplus
}  // extern "C"
#endif

#endif  // MILLRACE_C_CLUSTER_H_
