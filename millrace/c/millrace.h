// File: millrace/c/millrace.h
//
// The C interface of a node program: what any language calls to take a place in a cluster, to be
// fed, to answer inference, and to talk to the other nodes. Library: libmillrace.so. Drivers, which
// start clusters and feed them, use millrace/c/cluster.h and libmillrace_cluster.so.
//
//   static int32_t Main(millrace_node* node, void* user_data, millrace_error* error) {
//     millrace_feed* feed = NULL;
//     millrace_batch* batch = NULL;
//     int32_t code = millrace_feed_open(node, NULL, &feed, error);
//     while (code == MILLRACE_OK) {
//       code = millrace_feed_next(feed, 64, &batch, error);
//       if (code != MILLRACE_OK || batch == NULL) break;  // an error, or the end of the feed
//       millrace_tensor x = {.struct_size = sizeof(x)};
//       code = millrace_batch_tensor(batch, "x", &x, error);  // float32 of shape {64, 784}, say
//       if (code == MILLRACE_OK) Step(x.data, x.shape);
//       millrace_batch_free(batch);
//     }
//     millrace_feed_close(feed);
//     return code;
//   }
//   int main(void) { return millrace_run_node(Main, NULL); }
//
// Errors. A function that can fail returns a millrace_code as int32_t and takes a millrace_error as
// its last argument, which may be NULL; out-arguments are untouched by a failure unless a function
// says otherwise. Beyond the codes that each function names all return MILLRACE_INVALID_ARGUMENT
// for a NULL where none is allowed, and for a struct_size that is none.
//
// Structs. The side that makes a struct sets `struct_size` to its sizeof, and members that it does
// not use to zero. Members are only ever added at the end, or in the room of `reserved` of a struct
// that lies within another; the library reads and writes no more than struct_size says. Zero is
// each option's default. Handles are opaque.
//
// Text is UTF-8 and ends with a NUL. `const char*` that the library takes is copied where it is
// kept. Durations are milliseconds in int64_t, rounded up from what C++ has; negative ones never
// end, zero does not wait.
//
// Threads. All functions may be called from any thread; who frees a handle makes sure that nobody
// uses it meanwhile, or later. What blocks says so, and holds no lock of the caller's language.
// No exception leaves the library; without memory it ends the process.
//
// Arrow. Tables travel by the Arrow C data interface, tensors by DLPack too. The structs are
// declared here and defined by whoever uses them (Arrow's abi.h, dlpack.h, nanoarrow).
#ifndef MILLRACE_C_MILLRACE_H_
#define MILLRACE_C_MILLRACE_H_

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define MILLRACE_API __attribute__((visibility("default")))

struct ArrowArray;
struct ArrowArrayStream;
struct ArrowSchema;
struct DLManagedTensor;

// ---- errors and memory --------------------------------------------------------------------------

// gRPC's status codes.
enum millrace_code {
  MILLRACE_OK = 0,
  MILLRACE_CANCELLED = 1,
  MILLRACE_UNKNOWN = 2,
  MILLRACE_INVALID_ARGUMENT = 3,
  MILLRACE_DEADLINE_EXCEEDED = 4,
  MILLRACE_NOT_FOUND = 5,
  MILLRACE_ALREADY_EXISTS = 6,
  MILLRACE_PERMISSION_DENIED = 7,
  MILLRACE_RESOURCE_EXHAUSTED = 8,
  MILLRACE_FAILED_PRECONDITION = 9,
  MILLRACE_ABORTED = 10,
  MILLRACE_OUT_OF_RANGE = 11,
  MILLRACE_UNIMPLEMENTED = 12,
  MILLRACE_INTERNAL = 13,
  MILLRACE_UNAVAILABLE = 14,
  MILLRACE_DATA_LOSS = 15,
  MILLRACE_UNAUTHENTICATED = 16
};

// What happened, where, and what to do about it. Begin with MILLRACE_ERROR_INIT. Every call that is
// given one frees the text of the call before; millrace_error_clear() frees the last. One thread at
// a time.
typedef struct millrace_error {
  size_t struct_size;
  int32_t code;   // millrace_code of the last call
  char* message;  // NULL after a success. Owned by this struct
} millrace_error;

#define MILLRACE_ERROR_INIT \
  { sizeof(millrace_error), 0, NULL }

// Frees the text and sets MILLRACE_OK.
MILLRACE_API void millrace_error_clear(millrace_error* error);
// For callbacks: `message` is copied. Returns `code`.
MILLRACE_API int32_t millrace_error_set(millrace_error* error, int32_t code, const char* message);
// "NOT_FOUND"; "UNKNOWN" for what is no code. Lives as long as the library.
MILLRACE_API const char* millrace_code_name(int32_t code);
// The version of this header, and as text that of the library: "0.2.0". Lives as long as the
// library.
#define MILLRACE_VERSION_MAJOR 0
#define MILLRACE_VERSION_MINOR 2
#define MILLRACE_VERSION_PATCH 0
MILLRACE_API const char* millrace_version(void);
// Frees what a function says is to be freed with this; NULL is nothing.
MILLRACE_API void millrace_free(void* memory);

// A list of texts; free it with millrace_strings_free(). Begin with {sizeof(millrace_strings),
// NULL, 0}.
typedef struct millrace_strings {
  size_t struct_size;
  char** items;
  size_t num_items;
} millrace_strings;

// Frees the items; the struct is empty then.
MILLRACE_API void millrace_strings_free(millrace_strings* strings);

// ---- a node's life ------------------------------------------------------------------------------

// This process's place in its cluster: its context. There is one in a process, once.
typedef struct millrace_node millrace_node;

// The exit codes of a node program; 0 is success.
enum millrace_exit {
  MILLRACE_EXIT_FAILED = 1,      // it returned an error
  MILLRACE_EXIT_NO_PLACE = 2,    // it could not take its place
  MILLRACE_EXIT_AGENT_GONE = 70  // its agent is gone; the library ends the process with this
};

// The program: returns MILLRACE_OK, or an error that it has put into `error`, which is never NULL.
typedef int32_t (*millrace_node_main)(millrace_node* node, void* user_data, millrace_error* error);

// Runs `node_main` in this thread as the node that the environment describes, and returns the exit
// code for main(); with MILLRACE_EXIT_FAILED and MILLRACE_EXIT_NO_PLACE one line on stderr says
// why. millrace_node_open() and millrace_node_close() do the same for languages that want to stay
// in their own main function.
MILLRACE_API int32_t millrace_run_node(millrace_node_main node_main, void* user_data);

// Takes the place that the environment describes: tells the agent, opens the feed's sockets if this
// node is fed. Blocks until the agent has answered, 30 s at most. From here on SIGPIPE is ignored.
// If the agent dies before millrace_node_close() the process ends at once with
// MILLRACE_EXIT_AGENT_GONE. FAILED_PRECONDITION: the process was not started by an agent, or has
// opened its node before; UNIMPLEMENTED: an agent of another version; DEADLINE_EXCEEDED,
// UNAVAILABLE: the agent does not answer; or what kept the feed's sockets from opening.
MILLRACE_API int32_t millrace_node_open(millrace_node** node, millrace_error* error);

// Tells agent and feeders how the program ends (`code`, and `message` where that is no MILLRACE_OK;
// NULL is none), and frees `node`. Feeds, batches and what was exported stay valid; no rows come
// any more. Blocks for a few seconds at most. Returns what the node ends with: `code` with
// `message` in *error, or FAILED_PRECONDITION if `code` is MILLRACE_OK and inference rows were left
// without results. The process should then exit with 0 for MILLRACE_OK, otherwise
// MILLRACE_EXIT_FAILED.
MILLRACE_API int32_t millrace_node_close(millrace_node* node, int32_t code, const char* message,
                                         millrace_error* error);

// Who a node is; texts live as long as the node. None of it changes.
typedef struct millrace_node_info {
  size_t struct_size;
  const char* cluster_id;
  const char* name;      // "worker:1"
  const char* job_name;  // "chief", "master", "worker", "ps", "evaluator"
  int32_t task_index;
  int32_t executor_id;
  int32_t attempt;      // 0 at first; one more each time this role is started again
  int32_t num_workers;  // fed roles: chief or master and the workers
  int32_t rank;         // among the fed roles, chief or master first; -1 for a ps or an evaluator
  int32_t is_chief;     // 1 for chief and master, and for worker:0 where there is neither
  const char* address;  // by which peers know this node, host:port
  const char* default_fs;
  const char* working_dir;
  const char* log_dir;
  const char* tls_ca;           // PEM texts; empty if the agent gave none
  const char* tls_certificate;  //
  const char* tls_key;          // secret
} millrace_node_info;

MILLRACE_API int32_t millrace_node_describe(const millrace_node* node, millrace_node_info* info,
                                            millrace_error* error);

// The members now, {"ps":["h0:1"],"worker":["h1:1","h2:1"]}, and the number of the change that made
// them (`epoch`, may be NULL). Free *json with millrace_free().
MILLRACE_API int32_t millrace_node_cluster_spec(const millrace_node* node, char** json,
                                                uint64_t* epoch, millrace_error* error);
// Blocks until the members' epoch is at least `epoch`. DEADLINE_EXCEEDED if it is not in time.
MILLRACE_API int32_t millrace_node_wait_for_epoch(const millrace_node* node, uint64_t epoch,
                                                  int64_t timeout_ms, millrace_error* error);

// Whether the cluster has asked this node to end: waits for that, `timeout_ms` at most. Returns 1
// or 0. A feed ends by itself then.
MILLRACE_API int32_t millrace_node_wait_for_stop(const millrace_node* node, int64_t timeout_ms);

// What `path` means here: relative ones are the user's folder in the default file system. Free *out
// with millrace_free().
MILLRACE_API int32_t millrace_node_absolute_path(const millrace_node* node, const char* path,
                                                 char** out, millrace_error* error);

// The inherited socket of the reserved port, bound and not listening, where the cluster keeps
// ports; -1 otherwise. The node's: do not close it.
MILLRACE_API int32_t millrace_node_port_fd(const millrace_node* node);
// Closes the reserved port here and at the agent: before the program listens on it by itself. Does
// nothing where no port is held. Blocks for one round trip to the agent.
MILLRACE_API int32_t millrace_node_release_port(millrace_node* node, millrace_error* error);

// UUIDs of the GPUs that are this node's alone, in order.
MILLRACE_API int32_t millrace_node_gpus(const millrace_node* node, millrace_strings* out,
                                        millrace_error* error);
// Claims more: `num_gpus` free ones, or, if `num_ids` > 0, those that `ids` name (indices of the
// host, UUIDs, MIG instances) and `num_gpus` is 0. *out has the new ones. Blocks for a minute at
// most. RESOURCE_EXHAUSTED, naming who holds the others: too few are free; FAILED_PRECONDITION: the
// host has none or the node may use none; NOT_FOUND, INVALID_ARGUMENT: ids.
MILLRACE_API int32_t millrace_node_claim_gpus(millrace_node* node, int32_t num_gpus,
                                              const char* const* ids, size_t num_ids,
                                              millrace_strings* out, millrace_error* error);
// Gives some back: nothing of this process may use them any more. NOT_FOUND, and none is given
// back, if one is not this node's.
MILLRACE_API int32_t millrace_node_release_gpus(millrace_node* node, const char* const* ids,
                                                size_t num_ids, millrace_error* error);

// Fills `directory`, which is new and empty; returns as millrace_node_main.
typedef int32_t (*millrace_write_model)(const char* directory, void* user_data,
                                        millrace_error* error);
// Writes a model once: on the chief, `write_model` fills a directory beside `path`, which then
// takes the name in one step. Other nodes return MILLRACE_OK at once. UNIMPLEMENTED: no local file
// system; or the error of `write_model` or of the file system, and `path` is as it was. Blocks:
// disk I/O.
MILLRACE_API int32_t millrace_node_export_model(millrace_node* node, const char* path,
                                                millrace_write_model write_model, void* user_data,
                                                millrace_error* error);

// ---- the others ---------------------------------------------------------------------------------

// The cluster's key-value store, kept by the coordinator: keys of 1,024 bytes of text at most,
// values any bytes, 1 MiB at most. All block for a round trip to the coordinator. UNAVAILABLE: the
// coordinator is lost; DEADLINE_EXCEEDED: no answer for 30 s; INVALID_ARGUMENT: key or value;
// RESOURCE_EXHAUSTED: the store is full.
MILLRACE_API int32_t millrace_kv_set(millrace_node* node, const char* key, const void* value,
                                     size_t value_bytes, millrace_error* error);
// Waits until the key exists. Free *value, which has a NUL after its bytes, with millrace_free().
// NOT_FOUND: there is none and timeout_ms is 0; DEADLINE_EXCEEDED: none has come in time;
// CANCELLED: the node was asked to stop while this waited, or before.
MILLRACE_API int32_t millrace_kv_get(millrace_node* node, const char* key, int64_t timeout_ms,
                                     void** value, size_t* value_bytes, millrace_error* error);
// Adds to a counter that begins at 0; *sum, which may be NULL, is its new value. INVALID_ARGUMENT:
// the key holds something that is no number.
MILLRACE_API int32_t millrace_kv_add(millrace_node* node, const char* key, int64_t delta,
                                     int64_t* sum, millrace_error* error);
// NOT_FOUND: there is none.
MILLRACE_API int32_t millrace_kv_delete(millrace_node* node, const char* key,
                                        millrace_error* error);

// Waits until every fed node has come to the barrier of that name. DEADLINE_EXCEEDED names who did
// not; ABORTED: a node has ended; CANCELLED: this one was asked to stop; FAILED_PRECONDITION: on a
// ps or an evaluator.
MILLRACE_API int32_t millrace_barrier(millrace_node* node, const char* name, int64_t timeout_ms,
                                      millrace_error* error);

// Tells the driver and whoever watches. Never blocks and never fails: what cannot be sent is
// dropped.
MILLRACE_API void millrace_report_metric(millrace_node* node, const char* name, int64_t step,
                                         double value);

// ---- the feed -----------------------------------------------------------------------------------

// A reader of one queue, in one mode. May outlive its node, but no rows come then. One thread
// reads, another may answer with results; all other functions at any time.
typedef struct millrace_feed millrace_feed;
// Rows that were received, immutable and shared by whoever holds a handle, a tensor or an export of
// them: the memory lives until the last is gone, with or without feed and node.
typedef struct millrace_batch millrace_batch;

typedef struct millrace_feed_options {
  size_t struct_size;
  int32_t inference;  // 0: training; 1: every row is answered by one row of results, in order
  const char* queue;  // NULL: "input"
  // The columns that batches have; none: all.
  const char* const* columns;
  size_t num_columns;
  // What the program calls them, as many. NULL, or a NULL among them: as the data does.
  const char* const* names;
  // In training: every node gets equally many batches of `batch_rows` rows in each Train call, and
  // a batch only when all nodes have theirs. Rows that do not fill one at every node are dropped,
  // or batches are filled with rows of before; the driver's result counts both.
  int32_t equal;  // MILLRACE_EQUAL_OFF, MILLRACE_EQUAL_DROP or MILLRACE_EQUAL_PAD
  int64_t batch_rows;
} millrace_feed_options;

enum { MILLRACE_EQUAL_OFF = 0, MILLRACE_EQUAL_DROP = 1, MILLRACE_EQUAL_PAD = 2 };

// `options` may be NULL. FAILED_PRECONDITION: this node is not fed, or the queue is read in the
// other mode, or by another node in other batches although they are to be equal; NOT_FOUND: no
// queue of that name.
MILLRACE_API int32_t millrace_feed_open(millrace_node* node, const millrace_feed_options* options,
                                        millrace_feed** feed, millrace_error* error);
// NULL is nothing.
MILLRACE_API void millrace_feed_close(millrace_feed* feed);

// The next `rows` rows, at least 1. Asking says that the rows of the batch before have been used:
// they are acknowledged, and not fed again should this program die. Blocks until the rows are
// there; fewer come only at the end of a Train call, or in inference at the end of a partition: its
// rows are to be answered before more are asked for, or its feeder gets FAILED_PRECONDITION.
// *batch is NULL when no more will come: the driver has ended the feed, or the node was asked to
// stop. Free it with millrace_batch_free(). NOT_FOUND: the data has no column that the options
// name; FAILED_PRECONDITION: the queue is read in the other mode by now; RESOURCE_EXHAUSTED: a
// column of text in the batch would pass 2 GiB; INTERNAL: the receiver has broken down. With
// `equal` also ABORTED: a node has died, which the message names, or the call has failed; asking
// again goes on once all nodes are there.
MILLRACE_API int32_t millrace_feed_next(millrace_feed* feed, int64_t rows, millrace_batch** batch,
                                        millrace_error* error);
// The same for programs that use few rows at a time, and keep what they have not used: a multiple
// of `rows` rows, at most `most_rows`, if so many have been received. Never waits for more than
// `rows`. What it brought counts as used when the program asks again.
MILLRACE_API int32_t millrace_feed_next_up_to(millrace_feed* feed, int64_t rows, int64_t most_rows,
                                              millrace_batch** batch, millrace_error* error);
// The batches that millrace_feed_next() would bring, as a stream, which the caller releases; it may
// outlive the feed. Blocks until the first is there, since a stream says its schema first; the
// schema has no columns if the feed ends before that. Asking the stream for a batch is asking the
// feed. Errors as millrace_feed_next(); the stream itself returns EINVAL when the columns change.
MILLRACE_API int32_t millrace_feed_stream(millrace_feed* feed, int64_t rows,
                                          struct ArrowArrayStream* out, millrace_error* error);
// 1 if no rows will come any more, otherwise 0. Seeing 1 acknowledges the last batch.
MILLRACE_API int32_t millrace_feed_should_stop(millrace_feed* feed);

// Inference: the results of the next rows, in the order in which batches brought them, divided into
// calls as one likes. `array` is a struct array, as a record batch is; both are taken over, also by
// a failure, and released, on any thread, once the results were sent. Blocks while the driver does
// not take results. FAILED_PRECONDITION: more results than rows, or the feed is one of training;
// INVALID_ARGUMENT: no table that a feed carries, or other columns than those of the results
// before.
MILLRACE_API int32_t millrace_feed_results(millrace_feed* feed, struct ArrowSchema* schema,
                                           struct ArrowArray* array, millrace_error* error);

// The program wants no more rows; what it was given counts as used. FAILED_PRECONDITION: inference
// rows are unanswered, and fail at their feeder.
MILLRACE_API int32_t millrace_feed_terminate(millrace_feed* feed, millrace_error* error);

// Training: which rows this program has been given of the Train call that it read last, the batch
// in hand among them, and those that millrace_feed_resume() left out of it. *position is JSON, for
// a checkpoint; free it with millrace_free().
//   {"feed": "9f3c2a7be01d4c55", "rows": [[epoch, partition, first row, row after the last], ...]}
MILLRACE_API int32_t millrace_feed_position(millrace_feed* feed, char** position,
                                            millrace_error* error);
// Training, before the first batch: leaves these rows out, since they were used before the program
// was started again. Positions add up: give those of all nodes. They hold for the Train call
// "feed"; if that is "", in a new cluster, for its first one, which must feed the same rows in the
// same partitions. INVALID_ARGUMENT: no position; FAILED_PRECONDITION: inference, or a
// batch was read.
MILLRACE_API int32_t millrace_feed_resume(millrace_feed* feed, const char* position,
                                          millrace_error* error);

// ---- batches ------------------------------------------------------------------------------------

// NULL is nothing.
MILLRACE_API void millrace_batch_free(millrace_batch* batch);
MILLRACE_API int64_t millrace_batch_num_rows(const millrace_batch* batch);
MILLRACE_API int32_t millrace_batch_num_columns(const millrace_batch* batch);
// NULL if there is no column of that number. Lives as long as the batch.
MILLRACE_API const char* millrace_batch_column_name(const millrace_batch* batch, int32_t column);
// The names of all columns, each with a NUL after it, *size bytes of them: for languages in which
// each call is dear. Lives as long as the batch; NULL if an argument is.
MILLRACE_API const char* millrace_batch_names(const millrace_batch* batch, size_t* size);
// The type for people, "fixed_size_list<float32>[784]"; `column` may be a field, "point.x". Free
// *out with millrace_free(). NOT_FOUND lists the columns that there are.
MILLRACE_API int32_t millrace_batch_column_type(const millrace_batch* batch, const char* column,
                                                char** out, millrace_error* error);

// All rows as a struct array, without a copy. The consumer releases both; they hold the memory.
MILLRACE_API int32_t millrace_batch_export(const millrace_batch* batch, struct ArrowSchema* schema,
                                           struct ArrowArray* array, millrace_error* error);
// The same of one column, or of a field ("point.x", whose nulls are the field's own).
MILLRACE_API int32_t millrace_batch_export_column(const millrace_batch* batch, const char* column,
                                                  struct ArrowSchema* schema,
                                                  struct ArrowArray* array, millrace_error* error);

enum millrace_type {
  MILLRACE_INT8 = 1,
  MILLRACE_INT16 = 2,
  MILLRACE_INT32 = 3,
  MILLRACE_INT64 = 4,
  MILLRACE_UINT8 = 5,
  MILLRACE_UINT16 = 6,
  MILLRACE_UINT32 = 7,
  MILLRACE_UINT64 = 8,
  MILLRACE_FLOAT16 = 9,
  MILLRACE_FLOAT32 = 10,
  MILLRACE_FLOAT64 = 11,
  MILLRACE_DATE32 = 12,        // int32_t days since 1970-01-01
  MILLRACE_DATE64 = 13,        // int64_t milliseconds since then
  MILLRACE_TIMESTAMP_S = 14,   // int64_t seconds since 1970-01-01 00:00:00
  MILLRACE_TIMESTAMP_MS = 15,  //
  MILLRACE_TIMESTAMP_US = 16,  //
  MILLRACE_TIMESTAMP_NS = 17   //
};

#define MILLRACE_MAX_DIMENSIONS 32

// The values of a column where they lie, row after row, without gaps.
typedef struct millrace_tensor {
  size_t struct_size;
  // NULL if there are no values. Received memory is this process's alone: a program may write to it
  // if nothing else that it holds of the batch (another tensor, an export, results that are on
  // their way) is to stay as it was.
  void* data;
  int32_t type;                            // millrace_type
  int32_t ndim;                            // at least 1
  int64_t shape[MILLRACE_MAX_DIMENSIONS];  // shape[0] is the number of rows
  // Rows and list elements that are null, whose values may be anything.
  int64_t num_nulls;
} millrace_tensor;

// Numbers, dates and timestamps; or fixed_size_lists (of fixed_size_lists) of them; or lists of
// those, if all rows of the batch have equally many. No copy; valid as long as the batch, or
// anything else that holds its memory. NOT_FOUND lists the columns that there are;
// INVALID_ARGUMENT: of another type (text, bool, struct), or lists of several lengths: read it
// through Arrow.
MILLRACE_API int32_t millrace_batch_tensor(const millrace_batch* batch, const char* column,
                                           millrace_tensor* tensor, millrace_error* error);
// The same of all columns, in their order, for languages in which each call is dear. `tensors` has
// room for `num_tensors`, each of the size that the first one's struct_size says. The type of a
// column that is no tensor is 0. INVALID_ARGUMENT: that is not the number of columns.
MILLRACE_API int32_t millrace_batch_tensors(const millrace_batch* batch, millrace_tensor* tensors,
                                            int32_t num_tensors, millrace_error* error);
// The same for DLPack's consumers: holds the memory until the consumer calls its deleter, from any
// thread. Also INVALID_ARGUMENT: dates, timestamps, which DLPack has not, or nulls.
MILLRACE_API int32_t millrace_batch_dlpack(const millrace_batch* batch, const char* column,
                                           struct DLManagedTensor** out, millrace_error* error);

// ---- rows that the program makes ----------------------------------------------------------------

// Collects columns for results, for programs that have no Arrow library. Values are copied. One
// thread at a time.
typedef struct millrace_builder millrace_builder;

MILLRACE_API millrace_builder* millrace_builder_new(void);
// NULL is nothing.
MILLRACE_API void millrace_builder_free(millrace_builder* builder);
// Numbers, dates, timestamps: shape[0] rows, each of them a number (ndim 1) or nested
// fixed_size_lists. `valid`, if not NULL, has one byte for each row, 0 for a null.
MILLRACE_API int32_t millrace_builder_add(millrace_builder* builder, const char* column,
                                          const millrace_tensor* values, const uint8_t* valid,
                                          millrace_error* error);
// One byte for each row, 0 for false.
MILLRACE_API int32_t millrace_builder_add_bools(millrace_builder* builder, const char* column,
                                                const uint8_t* values, int64_t rows,
                                                const uint8_t* valid, millrace_error* error);
// Row i is bytes[offsets[i]] up to bytes[offsets[i + 1]]; `binary` is 1 for bytes that are no text.
MILLRACE_API int32_t millrace_builder_add_strings(millrace_builder* builder, const char* column,
                                                  const char* bytes, const int64_t* offsets,
                                                  int64_t rows, int32_t binary,
                                                  const uint8_t* valid, millrace_error* error);
// What was added, as a struct array that the consumer releases; the builder is empty then.
// INVALID_ARGUMENT names the column: row counts differ, a name occurs twice, text is not UTF-8.
MILLRACE_API int32_t millrace_builder_finish(millrace_builder* builder, struct ArrowSchema* schema,
                                             struct ArrowArray* array, millrace_error* error);

#ifdef __cplusplus
}  // extern "C"
#endif

#endif  // MILLRACE_C_MILLRACE_H_
