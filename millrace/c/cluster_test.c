/* Clusters of test_node.c, started, fed and ended through the C interface. */

#define _POSIX_C_SOURCE 200809L /* nanosleep() */

#include "millrace/c/cluster.h"

#include <errno.h>
#include <stdatomic.h>
#include <time.h>

#include "millrace/c/test_check.h"
#include "nanoarrow/nanoarrow.h"

enum { kPartitions = 3, kRows = 10 };

static const char* g_node;
static const char* g_agent;

/* ---- rows --------------------------------------------------------------------------------------
 */

/* Row `id` has image = {id, id, id, id}, and no `maybe` where id ends with 1. */
static void MakePartition(int partition, struct ArrowArrayStream* stream, millrace_error* error) {
  int64_t id[kRows], moment[kRows], offsets[kRows + 1] = {0};
  float image[kRows * 4];
  int32_t words[kRows * 2];
  double maybe[kRows];
  uint8_t valid[kRows];
  char names[kRows * 8];
  for (int i = 0; i < kRows; ++i) {
    id[i] = partition * kRows + i;
    moment[i] = id[i] * 1000000;
    for (int j = 0; j < 4; ++j) image[i * 4 + j] = (float)id[i];
    words[2 * i] = words[2 * i + 1] = i;
    maybe[i] = 0.5;
    valid[i] = i != 1;
    offsets[i + 1] = offsets[i] + snprintf(names + offsets[i], 8, "row%d", (int)id[i]);
  }
  const millrace_tensor columns[] = {
      {sizeof(millrace_tensor), id, MILLRACE_INT64, 1, {kRows}, 0},
      {sizeof(millrace_tensor), image, MILLRACE_FLOAT32, 2, {kRows, 4}, 0},
      {sizeof(millrace_tensor), words, MILLRACE_INT32, 2, {kRows, 2}, 0},
      {sizeof(millrace_tensor), maybe, MILLRACE_FLOAT64, 1, {kRows}, 0},
      {sizeof(millrace_tensor), moment, MILLRACE_TIMESTAMP_US, 1, {kRows}, 0},
  };
  struct ArrowSchema schema;
  struct ArrowArray array;
  millrace_builder* builder = millrace_builder_new();
  CHECK_OK(millrace_builder_add(builder, "id", &columns[0], NULL, error), *error);
  CHECK_OK(millrace_builder_add(builder, "image", &columns[1], NULL, error), *error);
  CHECK_OK(millrace_builder_add_strings(builder, "name", names, offsets, kRows, 0, NULL, error),
           *error);
  CHECK_OK(millrace_builder_add(builder, "words", &columns[2], NULL, error), *error);
  CHECK_OK(millrace_builder_add(builder, "maybe", &columns[3], valid, error), *error);
  CHECK_OK(millrace_builder_add(builder, "moment", &columns[4], NULL, error), *error);
  CHECK_OK(millrace_builder_finish(builder, &schema, &array, error), *error);
  millrace_builder_free(builder);
  CHECK_OK(millrace_stream_of_batch(&schema, &array, stream, error), *error);
  CHECK(schema.release == NULL && array.release == NULL); /* taken over */
}

static millrace_source* MakeSource(millrace_error* error) {
  struct ArrowArrayStream streams[kPartitions];
  for (int i = 0; i < kPartitions; ++i) MakePartition(i, &streams[i], error);
  millrace_source* source = NULL;
  CHECK_OK(millrace_source_from_memory(streams, kPartitions, &source, error), *error);
  return source;
}

static int32_t OpenPartition(int32_t partition, int64_t data_epoch, void* user_data,
                             struct ArrowArrayStream* out, millrace_error* error) {
  if (*(const char*)user_data != '\0') {
    return millrace_error_set(error, MILLRACE_PERMISSION_DENIED, user_data);
  }
  (void)data_epoch;
  MakePartition(partition, out, error);
  return MILLRACE_OK;
}

/* Rows without end in two partitions, each row a batch: an id, and a blob that is large enough to
 * be counted. Where they fail, the first partition has kGood, and the second one, after `go`, rows
 * with the id -1. */
enum { kBlobBytes = 1 << 20, kGood = 5 };
typedef struct {
  atomic_int pulled; /* of both */
  int fails;
  atomic_int go;
} Endless;
typedef struct {
  Endless* of;
  int partition;
  int next;
} EndlessRows;

static void Pause(long ms) {
  const struct timespec pause = {.tv_nsec = ms * 1000 * 1000};
  nanosleep(&pause, NULL);
}

static int MakeRow(int64_t id, struct ArrowSchema* schema, struct ArrowArray* array) {
  static const char blob[kBlobBytes];
  const int64_t offsets[] = {0, kBlobBytes};
  const millrace_tensor ids = {sizeof(ids), &id, MILLRACE_INT64, 1, {1}, 0};
  millrace_builder* builder = millrace_builder_new();
  int32_t code = millrace_builder_add(builder, "id", &ids, NULL, NULL);
  if (code == MILLRACE_OK) {
    code = millrace_builder_add_strings(builder, "blob", blob, offsets, 1, 1, NULL, NULL);
  }
  if (code == MILLRACE_OK) code = millrace_builder_finish(builder, schema, array, NULL);
  millrace_builder_free(builder);
  return code == MILLRACE_OK ? 0 : EIO;
}

static int EndlessSchema(struct ArrowArrayStream* stream, struct ArrowSchema* out) {
  (void)stream;
  struct ArrowArray array;
  const int failed = MakeRow(0, out, &array);
  if (!failed) array.release(&array);
  return failed;
}

static int EndlessNext(struct ArrowArrayStream* stream, struct ArrowArray* out) {
  EndlessRows* rows = stream->private_data;
  atomic_fetch_add(&rows->of->pulled, 1);
  int id = rows->next++;
  if (rows->of->fails && rows->partition == 0 && id == kGood) {
    *out = (struct ArrowArray){.release = NULL};
    return 0;
  }
  if (rows->of->fails && rows->partition == 1) {
    while (!atomic_load(&rows->of->go)) Pause(1);
    id = -1;
  }
  struct ArrowSchema schema;
  const int failed = MakeRow(id, &schema, out);
  if (!failed) schema.release(&schema);
  return failed;
}

static const char* EndlessError(struct ArrowArrayStream* stream) {
  (void)stream;
  return NULL;
}

static void EndlessRelease(struct ArrowArrayStream* stream) {
  free(stream->private_data);
  stream->release = NULL;
}

static int32_t OpenEndless(int32_t partition, int64_t data_epoch, void* user_data,
                           struct ArrowArrayStream* out, millrace_error* error) {
  (void)data_epoch, (void)error;
  EndlessRows* rows = malloc(sizeof(*rows));
  CHECK(rows != NULL);
  *rows = (EndlessRows){.of = user_data, .partition = partition};
  *out = (struct ArrowArrayStream){EndlessSchema, EndlessNext, EndlessError, EndlessRelease, rows};
  return MILLRACE_OK;
}

/* ---- clusters ----------------------------------------------------------------------------------
 */

typedef struct {
  double sum;
  int64_t rows;
  int said; /* that the line was there */
  const char* line;
  char failed[64];   /* "worker:0: exit code 1: last stderr line" */
  char states[1024]; /* of a cluster of one node, as they came: "0 running, 0 failed, 1 started" */
} Heard;

static void OnMetric(const char* node, const char* name, int64_t step, double value,
                     void* user_data) {
  Heard* heard = user_data;
  if (strcmp(name, "sum") != 0 || strncmp(node, "worker:", 7) != 0) return;
  heard->sum += value;
  heard->rows += step;
}

static void OnOutput(const char* node, const char* line, void* user_data) {
  (void)node;
  Heard* heard = user_data;
  if (strcmp(line, heard->line) == 0) heard->said = 1;
}

static void OnFailure(const millrace_failure* failure, void* user_data) {
  Heard* heard = user_data;
  CHECK(heard->failed[0] == '\0' && failure->pid > 0 && failure->attempt == 0);
  CHECK(failure->num_stderr_lines > 0);
  const char* last = failure->stderr_lines[failure->num_stderr_lines - 1];
  CHECK(strstr(last, "on purpose") != NULL);
  snprintf(heard->failed, sizeof(heard->failed), "%s: %s", failure->node, failure->exit_status);
}

static millrace_cluster* Start(const char* what, int32_t nodes, Heard* heard,
                               millrace_error* error) {
  const char* args[] = {what};
  const millrace_cluster_options options = {.struct_size = sizeof(options),
                                            .program = g_node,
                                            .args = args,
                                            .num_args = 1,
                                            .agent_path = g_agent,
                                            .num_executors = nodes,
                                            .input_mode = MILLRACE_INPUT_FEED,
                                            .node = {.working_dir = getenv("TEST_TMPDIR")},
                                            .feed = {.budget_bytes = 4 << 20},
                                            .observer = {.user_data = heard,
                                                         .on_output = OnOutput,
                                                         .on_metric = OnMetric,
                                                         .on_failure = OnFailure},
                                            .no_cluster_file = 1,
                                            .progress = -1};
  millrace_cluster* cluster = NULL;
  CHECK_OK(millrace_cluster_run(&options, &cluster, error), *error);
  return cluster;
}

static int Bit(const void* bits, int64_t i) { return ((const uint8_t*)bits)[i / 8] >> (i % 8) & 1; }

/* Reads the doubled ids, one for each row, in order, and whether they were even, null of each
 * fifth. */
static void CheckResults(struct ArrowArrayStream* results) {
  struct ArrowSchema schema;
  CHECK(results->get_schema(results, &schema) == 0);
  CHECK(schema.n_children == 2 && strcmp(schema.children[0]->name, "doubled") == 0);
  CHECK(strcmp(schema.children[1]->name, "even") == 0 &&
        strcmp(schema.children[1]->format, "b") == 0);
  schema.release(&schema);
  int64_t rows = 0;
  for (;;) {
    struct ArrowArray batch;
    CHECK(results->get_next(results, &batch) == 0);
    if (batch.release == NULL) break;
    const struct ArrowArray* column = batch.children[0];
    const struct ArrowArray* even = batch.children[1];
    const int64_t* values = column->buffers[1];
    for (int64_t i = 0; i < batch.length; ++i, ++rows) {
      CHECK(values[column->offset + i] == 2 * rows);
      const int known = even->buffers[0] == NULL || Bit(even->buffers[0], even->offset + i);
      CHECK(known == (rows % 5 != 0));
      CHECK(!known || Bit(even->buffers[1], even->offset + i) == (rows % 2 == 0));
    }
    batch.release(&batch);
  }
  CHECK(rows == kPartitions * kRows);
}

static void FeedsTrainingAndInference(millrace_error* error) {
  Heard heard = {.line = "all rows: 60"};
  millrace_cluster* cluster = Start("sum", 2, &heard, error);
  CHECK(strlen(millrace_cluster_id(cluster)) > 0);
  char* spec = NULL;
  CHECK_OK(millrace_cluster_spec(cluster, &spec, error), *error);
  CHECK(strstr(spec, "\"worker\":[") != NULL);
  millrace_free(spec);
  char* nodes = NULL;
  CHECK_OK(millrace_cluster_nodes(cluster, &nodes, error), *error);
  CHECK(strstr(nodes, "\"job_name\":\"worker\"") != NULL && strstr(nodes, "\"running\"") != NULL);
  millrace_free(nodes);
  CHECK(strncmp(millrace_cluster_address(cluster), "127.0.0.1:", 10) == 0);

  millrace_source* source = MakeSource(error);
  const millrace_feed_call twice = {.struct_size = sizeof(twice), .num_epochs = 2};
  millrace_train_result result = {.struct_size = sizeof(result)};
  CHECK_OK(millrace_cluster_train(cluster, source, &twice, &result, error), *error);
  CHECK(result.rows == 2 * kPartitions * kRows && result.rows_refed == 0);
  CHECK(result.exactly_once == 1 && result.terminated == 0);
  CHECK_OK(millrace_cluster_end_feed(cluster, NULL, error), *error);
  CHECK_ERROR(millrace_cluster_train(cluster, source, NULL, NULL, error), *error,
              MILLRACE_FAILED_PRECONDITION, "input");

  struct ArrowArrayStream results;
  CHECK_OK(millrace_cluster_inference(cluster, source, NULL, &results, error), *error);
  millrace_source_free(source);
  CheckResults(&results);
  CHECK_OK(millrace_stream_error(&results, error), *error);
  CHECK_OK(millrace_cluster_shutdown(cluster, NULL, error), *error);
  millrace_cluster_free(cluster);
  struct ArrowArray none;
  CHECK(results.get_next(&results, &none) == 0 && none.release == NULL); /* the end stays */
  results.release(&results);
  /* 0 + 1 + ... + 29, four times in a row, in two epochs. */
  CHECK(heard.sum == 435.0 * 4 * 2 && heard.rows == 60 && heard.said);
}

/* ---- results, as they come ---------------------------------------------------------------------
 */

/* Reads the row `id` of OpenEndless(), which the caller releases. */
static struct ArrowArray ReadRow(struct ArrowArrayStream* results, int64_t id) {
  struct ArrowArray row;
  CHECK(results->get_next(results, &row) == 0 && row.release != NULL && row.length == 1);
  const struct ArrowArray* const ids = row.children[0];
  CHECK(((const int64_t*)ids->buffers[1])[ids->offset] == id);
  return row;
}

static millrace_source* OpenEndlessSource(Endless* endless, millrace_error* error) {
  millrace_source* source = NULL;
  CHECK_OK(millrace_source_from_function(2, OpenEndless, endless, 1, &source, error), *error);
  return source;
}

/* What is pulled while nobody reads: 64 MiB of results, what two nodes may hold, and what is on its
 * way. */
static int MostPulledUnread(Endless* endless) {
  enum { kMost = 200 };
  int pulled = -1;
  for (int now = 0; now != pulled; now = atomic_load(&endless->pulled)) {
    pulled = now;
    CHECK(pulled < kMost);
    Pause(300);
  }
  return pulled;
}

static void ResultsAreReadAsTheyComeAndMayBeLeft(millrace_error* error) {
  Heard heard = {.line = ""};
  millrace_cluster* cluster = Start("echo", 2, &heard, error);
  Endless endless = {.fails = 0};
  millrace_source* source = OpenEndlessSource(&endless, error);
  struct ArrowArrayStream results;
  CHECK_OK(millrace_cluster_inference(cluster, source, NULL, &results, error), *error);
  millrace_source_free(source);
  const int unread = MostPulledUnread(&endless);
  CHECK(unread >= 32); /* or it would say nothing */
  struct ArrowArray kept = ReadRow(&results, 0);
  for (int64_t id = 1; id < unread; ++id) {
    struct ArrowArray row = ReadRow(&results, id);
    row.release(&row);
  }
  results.release(&results);
  const int pulled = atomic_load(&endless.pulled);

  /* The cluster goes on, and nobody reads the source any more. */
  source = MakeSource(error);
  CHECK_OK(millrace_cluster_inference(cluster, source, NULL, &results, error), *error);
  millrace_source_free(source);
  int64_t rows = 0;
  for (struct ArrowArray row;; row.release(&row)) {
    CHECK(results.get_next(&results, &row) == 0);
    if (row.release == NULL) break;
    rows += row.length;
  }
  CHECK(rows == kPartitions * kRows);
  results.release(&results);
  CHECK(atomic_load(&endless.pulled) == pulled);

  /* And the stream ends with it. */
  source = OpenEndlessSource(&endless, error);
  CHECK_OK(millrace_cluster_inference(cluster, source, NULL, &results, error), *error);
  struct ArrowArray row = ReadRow(&results, 0);
  row.release(&row);
  CHECK_OK(millrace_cluster_shutdown(cluster, NULL, error), *error);
  millrace_cluster_free(cluster);
  millrace_source_free(source);
  CHECK(results.get_next(&results, &row) == ECANCELED);
  CHECK_ERROR(millrace_stream_error(&results, error), *error, MILLRACE_CANCELLED, "not all read");
  struct ArrowSchema schema;
  CHECK(results.get_schema(&results, &schema) == 0 && schema.n_children == 2);
  schema.release(&schema);
  results.release(&results);
  CHECK_ERROR(millrace_stream_error(&results, error), *error, MILLRACE_INVALID_ARGUMENT,
              "released");
  const struct ArrowArray* const blob = kept.children[1];
  const int32_t* const offsets = blob->buffers[1];
  CHECK(offsets[blob->offset + 1] - offsets[blob->offset] == kBlobBytes);
  CHECK(((const char*)blob->buffers[2])[offsets[blob->offset + 1] - 1] == '\0');
  kept.release(&kept);
}

static void AnErrorHalfWayIsThatOfTheRead(millrace_error* error) {
  Heard heard = {.line = ""};
  millrace_cluster* cluster = Start("echo", 2, &heard, error);
  Endless endless = {.fails = 1};
  millrace_source* source = OpenEndlessSource(&endless, error);
  struct ArrowArrayStream results;
  CHECK_OK(millrace_cluster_inference(cluster, source, NULL, &results, error), *error);
  struct ArrowArray row;
  for (int id = 0; id < kGood; ++id) {
    row = ReadRow(&results, id);
    row.release(&row);
  }
  atomic_store(&endless.go, 1);
  CHECK(results.get_next(&results, &row) == EIO); /* which says less */
  CHECK_ERROR(millrace_stream_error(&results, error), *error, MILLRACE_DATA_LOSS, "on purpose");
  CHECK(strstr(error->message, "worker:") != NULL);
  CHECK(strcmp(results.get_last_error(&results), error->message) == 0);
  CHECK(strstr(heard.failed, ": exit code 1") != NULL); /* before the read returned */
  millrace_cluster_free(cluster);
  CHECK(results.get_next(&results, &row) == EIO); /* errors stay */
  results.release(&results);
  millrace_source_free(source);
}

/* ---- what is heard -----------------------------------------------------------------------------
 */

static void OnSlot(const millrace_slot* slot, void* user_data) {
  Heard* heard = user_data;
  CHECK(slot->struct_size == sizeof(*slot) && slot->executor_id == 0);
  CHECK(strcmp(slot->job_name, "worker") == 0 && slot->task_index == 0);
  const int runs = strcmp(slot->state, "running") == 0;
  CHECK(!runs || (slot->pid > 0 && *slot->host != '\0' && strchr(slot->address, ':') != NULL));
  CHECK((strcmp(slot->state, "failed") == 0) == (*slot->error != '\0'));
  const size_t length = strlen(heard->states);
  snprintf(heard->states + length, sizeof(heard->states) - length, "%s%d %s", length ? ", " : "",
           slot->attempt, slot->state);
}

static void OnRestart(const millrace_restart* restart, void* user_data) {
  Heard* heard = user_data;
  const millrace_failure* const failure = restart->failure;
  CHECK(restart->struct_size == sizeof(*restart) && failure->struct_size == sizeof(*failure));
  CHECK(restart->used == 1 && restart->max == 2 && restart->after_ms > 0);
  CHECK(failure->attempt == 0 && failure->pid > 0 && failure->num_stderr_lines > 0);
  CHECK(strstr(failure->stderr_lines[failure->num_stderr_lines - 1], "the first time") != NULL);
  snprintf(heard->failed, sizeof(heard->failed), "%s: %s", failure->node, failure->exit_status);
}

static void ARestartIsHeard(millrace_error* error) {
  Heard heard = {.line = "the second time"};
  const char* args[] = {"again"};
  const millrace_cluster_options options = {
      .struct_size = sizeof(options),
      .program = g_node,
      .args = args,
      .num_args = 1,
      .agent_path = g_agent,
      .failure = {.restart = {.max_restarts = 2, .initial_backoff_ms = 20}},
      .observer = {.user_data = &heard,
                   .on_output = OnOutput,
                   .on_restart = OnRestart,
                   .on_slot = OnSlot},
      .no_cluster_file = 1,
      .progress = -1};
  millrace_cluster* cluster = NULL;
  CHECK_OK(millrace_cluster_run(&options, &cluster, error), *error);
  CHECK_OK(millrace_cluster_shutdown(cluster, NULL, error), *error);
  millrace_cluster_free(cluster);
  CHECK(heard.said && strcmp(heard.failed, "worker:0: exit code 1") == 0);
  const char* states = heard.states;
  for (const char* const* next = (const char* const[]){"0 started", "0 running", "0 failed",
                                                       "1 running", "1 finished", NULL};
       *next != NULL; ++next) {
    states = strstr(states, *next);
    CHECK(states != NULL);
  }
}

static void MemoryOutlivesBatchFeedAndNode(millrace_error* error) {
  Heard heard = {.line = "outlived"};
  millrace_cluster* cluster = Start("outlive", 1, &heard, error);
  millrace_source* source = NULL;
  static char no_error[] = "";
  CHECK_OK(millrace_source_from_function(kPartitions, OpenPartition, no_error, 1, &source, error),
           *error);
  CHECK_OK(millrace_cluster_train(cluster, source, NULL, NULL, error), *error);
  millrace_source_free(source);
  CHECK_OK(millrace_cluster_shutdown(cluster, NULL, error), *error);
  millrace_cluster_free(cluster);
  CHECK(heard.said);
}

static void ErrorsSayWhatAndWhere(millrace_error* error) {
  Heard heard = {.line = ""};
  millrace_cluster* cluster = Start("misuse", 1, &heard, error);
  millrace_source* source = MakeSource(error);
  /* What the program returns is the cluster's error. */
  if (millrace_cluster_train(cluster, source, NULL, NULL, error) == MILLRACE_OK) {
    CHECK(millrace_cluster_shutdown(cluster, NULL, error) != MILLRACE_OK);
  }
  CHECK_ERROR(error->code, *error, MILLRACE_DATA_LOSS, "failed with DATA_LOSS: on purpose");
  CHECK(strstr(error->message, "worker:0") != NULL);
  CHECK(strcmp(heard.failed, "worker:0: exit code 1") == 0);
  millrace_cluster_free(cluster);
  millrace_source_free(source);

  /* A source of one's own that fails. */
  cluster = Start("sum", 2, &heard, error);
  static char refused[] = "the table is locked";
  CHECK_OK(millrace_source_from_function(1, OpenPartition, refused, 1, &source, error), *error);
  CHECK_ERROR(millrace_cluster_train(cluster, source, NULL, NULL, error), *error,
              MILLRACE_PERMISSION_DENIED, "the table is locked");
  millrace_cluster_stop(cluster, "enough", 0);
  CHECK_ERROR(millrace_cluster_shutdown(cluster, NULL, error), *error, MILLRACE_CANCELLED,
              "enough");
  millrace_cluster_free(cluster);
  millrace_source_free(source);

  const millrace_cluster_options options = {.struct_size = sizeof(options),
                                            .program = "no-such-program",
                                            .agent_path = g_agent,
                                            .progress = -1,
                                            .no_cluster_file = 1};
  CHECK_ERROR(millrace_cluster_run(&options, &cluster, error), *error, MILLRACE_NOT_FOUND,
              "no-such-program");
  const millrace_agents no_secret = {.struct_size = sizeof(no_secret),
                                     .resolver = "{\"type\": \"static\", \"cluster_spec\": {}}"};
  millrace_cluster_options on_agents = options;
  on_agents.agents = &no_secret;
  CHECK_ERROR(millrace_cluster_run(&on_agents, &cluster, error), *error, MILLRACE_INVALID_ARGUMENT,
              "agent-secret");
  millrace_job_restart job = {.struct_size = 0};
  const millrace_job_restart* const jobs[] = {&job};
  millrace_cluster_options restarted = options;
  restarted.failure.restart_by_job = jobs;
  restarted.failure.num_restart_by_job = 1;
  CHECK_ERROR(millrace_cluster_run(&restarted, &cluster, error), *error, MILLRACE_INVALID_ARGUMENT,
              "struct_size");
  job.struct_size = sizeof(job);
  CHECK_ERROR(millrace_cluster_run(&restarted, &cluster, error), *error, MILLRACE_INVALID_ARGUMENT,
              "restart_by_job: job");
  job.job = "worker";
  job.policy.reserved[0] = 1;
  CHECK_ERROR(millrace_cluster_run(&restarted, &cluster, error), *error, MILLRACE_UNIMPLEMENTED,
              "restart_by_job: reserved");
  millrace_cluster_options wrong = options;
  wrong.feed.reserved[2] = 1;
  CHECK_ERROR(millrace_cluster_run(&wrong, &cluster, error), *error, MILLRACE_UNIMPLEMENTED,
              "options->feed: reserved");
  const char* const env[] = {"NAME"};
  wrong = options;
  wrong.env = env;
  wrong.num_env = 1;
  CHECK_ERROR(millrace_cluster_run(&wrong, &cluster, error), *error, MILLRACE_INVALID_ARGUMENT,
              "'NAME' is no variable; write NAME=value");
  wrong = options;
  wrong.input_mode = 2;
  CHECK_ERROR(millrace_cluster_run(&wrong, &cluster, error), *error, MILLRACE_INVALID_ARGUMENT,
              "input_mode is 2");
  CHECK_ERROR(millrace_source_from_memory(NULL, 0, &source, error), *error,
              MILLRACE_INVALID_ARGUMENT, "");
  /* A caller that knows more than this library does. */
  struct {
    millrace_cluster_options known;
    int64_t new_member;
  } newer = {.known = options, .new_member = 1};
  newer.known.struct_size = sizeof(newer);
  CHECK_ERROR(millrace_cluster_run(&newer.known, &cluster, error), *error, MILLRACE_UNIMPLEMENTED,
              "newer libmillrace");
}

/* What is asked for before it begins is the surest case of all. */
static void StopsACallAndAClusterThatStarts(millrace_error* error) {
  Heard heard = {.line = ""};
  millrace_cluster* cluster = Start("sum", 2, &heard, error);
  struct ArrowArrayStream stream;
  MakePartition(0, &stream, error);
  millrace_source* source = NULL;
  CHECK_OK(millrace_source_split(&stream, 3, &source, error), *error);
  millrace_stop* stop = millrace_stop_new();
  millrace_stop_request(stop, "not this one", 0);
  const millrace_feed_call stopped = {.struct_size = sizeof(stopped), .stop = stop};
  CHECK_ERROR(millrace_cluster_train(cluster, source, &stopped, NULL, error), *error,
              MILLRACE_CANCELLED, "not this one");
  CHECK_OK(millrace_cluster_train(cluster, source, NULL, NULL, error), *error);
  CHECK_OK(millrace_cluster_end_feed(cluster, NULL, error), *error);
  struct ArrowArrayStream results;
  CHECK_ERROR(millrace_cluster_inference(cluster, source, &stopped, &results, error), *error,
              MILLRACE_CANCELLED, "not this one");
  CHECK_OK(millrace_cluster_shutdown(cluster, NULL, error), *error);
  millrace_cluster_free(cluster);
  CHECK(heard.rows == kRows);

  const char* args[] = {"sum"};
  const millrace_cluster_options options = {.struct_size = sizeof(options),
                                            .program = g_node,
                                            .args = args,
                                            .num_args = 1,
                                            .agent_path = g_agent,
                                            .progress = -1,
                                            .no_cluster_file = 1,
                                            .stop = stop};
  CHECK_ERROR(millrace_cluster_run(&options, &cluster, error), *error, MILLRACE_CANCELLED,
              "not this one");
  millrace_stop_free(stop);
  CHECK_ERROR(millrace_source_split(NULL, 1, &source, error), *error, MILLRACE_INVALID_ARGUMENT,
              "stream");
  CHECK_ERROR(millrace_stream_of_batch(NULL, NULL, &stream, error), *error,
              MILLRACE_INVALID_ARGUMENT, "schema");
  MakePartition(0, &stream, error);
  millrace_source* none = NULL;
  CHECK_ERROR(millrace_source_split(&stream, 0, &none, error), *error, MILLRACE_INVALID_ARGUMENT,
              "0 partitions");
  millrace_source_free(source);
}

int main(int argc, char** argv) {
  CHECK(argc == 3);
  g_node = argv[1];
  g_agent = argv[2];
  millrace_error error = MILLRACE_ERROR_INIT;
  FeedsTrainingAndInference(&error);
  fprintf(stderr, "FeedsTrainingAndInference: ok\n");
  ResultsAreReadAsTheyComeAndMayBeLeft(&error);
  fprintf(stderr, "ResultsAreReadAsTheyComeAndMayBeLeft: ok\n");
  AnErrorHalfWayIsThatOfTheRead(&error);
  ARestartIsHeard(&error);
  MemoryOutlivesBatchFeedAndNode(&error);
  fprintf(stderr, "MemoryOutlivesBatchFeedAndNode: ok\n");
  ErrorsSayWhatAndWhere(&error);
  fprintf(stderr, "ErrorsSayWhatAndWhere: ok\n");
  StopsACallAndAClusterThatStarts(&error);
  fprintf(stderr, "StopsACallAndAClusterThatStarts: ok\n");
  CHECK(strcmp(millrace_code_name(5), "NOT_FOUND") == 0);
  char version[32];
  snprintf(version, sizeof(version), "%d.%d.%d", MILLRACE_VERSION_MAJOR, MILLRACE_VERSION_MINOR,
           MILLRACE_VERSION_PATCH);
  CHECK(strcmp(millrace_version(), version) == 0);
  millrace_error_clear(&error);
  return 0;
}
