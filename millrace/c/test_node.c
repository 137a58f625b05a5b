/* The node program of cluster_test.c: what it does is its first argument. */

#include <math.h>

#include "millrace/c/millrace.h"
#include "millrace/c/test_check.h"
#include "nanoarrow/nanoarrow.h"

/* As dlpack.h has it. */
typedef struct {
  void* data;
  int32_t device_type, device_id;
  int32_t ndim;
  uint8_t code, bits;
  uint16_t lanes;
  int64_t* shape;
  int64_t* strides;
  uint64_t byte_offset;
} DLTensor;
struct DLManagedTensor {
  DLTensor dl_tensor;
  void* manager_ctx;
  void (*deleter)(struct DLManagedTensor* self);
};

/* ---- sum: trains, then answers inference -------------------------------------------------------
 */

static int32_t Train(millrace_node* node, double* sum, int64_t* rows, millrace_error* error) {
  const char* const columns[] = {"image", "id"};
  const char* const names[] = {"x", NULL};
  millrace_feed_options options = {sizeof(options), 0, "input", columns, 2, names};
  millrace_feed* feed = NULL;
  int32_t code = millrace_feed_open(node, &options, &feed, error);
  while (code == MILLRACE_OK) {
    millrace_batch* batch = NULL;
    code = millrace_feed_next(feed, 7, &batch, error);
    if (code != MILLRACE_OK || batch == NULL) break;
    CHECK(millrace_batch_num_columns(batch) == 2);
    CHECK(strcmp(millrace_batch_column_name(batch, 0), "x") == 0);
    CHECK(strcmp(millrace_batch_column_name(batch, 1), "id") == 0);
    CHECK(millrace_batch_column_name(batch, 2) == NULL);
    size_t size = 0;
    CHECK(memcmp(millrace_batch_names(batch, &size), "x\0id", sizeof("x\0id")) == 0 &&
          size == sizeof("x\0id"));
    CHECK(millrace_batch_names(batch, NULL) == NULL);
    millrace_tensor x = {.struct_size = sizeof(x)};
    CHECK_OK(millrace_batch_tensor(batch, "x", &x, error), *error);
    CHECK(x.type == MILLRACE_FLOAT32 && x.ndim == 2 && x.num_nulls == 0);
    CHECK(x.shape[0] == millrace_batch_num_rows(batch) && x.shape[1] == 4);
    for (int64_t i = 0; i < x.shape[0] * x.shape[1]; ++i) *sum += ((const float*)x.data)[i];
    *rows += x.shape[0];
    millrace_batch_free(batch);
  }
  CHECK(code != MILLRACE_OK || millrace_feed_should_stop(feed) == 1);
  millrace_feed_close(feed);
  return code;
}

static int32_t Answer(millrace_feed* feed, const millrace_batch* batch, millrace_error* error) {
  millrace_tensor id = {.struct_size = sizeof(id)};
  int32_t code = millrace_batch_tensor(batch, "id", &id, error);
  if (code != MILLRACE_OK) return code;
  int64_t doubled[5];
  uint8_t even[5], valid[5];
  CHECK(id.type == MILLRACE_INT64 && id.ndim == 1 && id.shape[0] <= 5);
  for (int64_t i = 0; i < id.shape[0]; ++i) {
    const int64_t value = ((const int64_t*)id.data)[i];
    doubled[i] = 2 * value;
    even[i] = value % 2 == 0;
    valid[i] = value % 5 != 0;
  }
  millrace_tensor values = {.struct_size = sizeof(values),
                            .data = doubled,
                            .type = MILLRACE_INT64,
                            .ndim = 1,
                            .shape = {id.shape[0]}};
  struct ArrowSchema schema;
  struct ArrowArray array;
  millrace_builder* builder = millrace_builder_new();
  code = millrace_builder_add(builder, "doubled", &values, NULL, error);
  if (code == MILLRACE_OK) {
    code = millrace_builder_add_bools(builder, "even", even, id.shape[0], valid, error);
  }
  if (code == MILLRACE_OK) code = millrace_builder_finish(builder, &schema, &array, error);
  if (code == MILLRACE_OK) code = millrace_feed_results(feed, &schema, &array, error);
  millrace_builder_free(builder);
  return code;
}

static int32_t Infer(millrace_node* node, millrace_error* error) {
  millrace_feed_options options = {.struct_size = sizeof(options), .inference = 1};
  millrace_feed* feed = NULL;
  int32_t code = millrace_feed_open(node, &options, &feed, error);
  while (code == MILLRACE_OK) {
    millrace_batch* batch = NULL;
    code = millrace_feed_next(feed, 5, &batch, error);
    if (code != MILLRACE_OK || batch == NULL) break;
    code = Answer(feed, batch, error);
    millrace_batch_free(batch);
  }
  millrace_feed_close(feed);
  return code;
}

/* ---- echo: answers inference with the rows themselves ------------------------------------------
 */

static int32_t Echo(millrace_node* node, void* user_data, millrace_error* error) {
  (void)user_data;
  millrace_feed_options options = {.struct_size = sizeof(options), .inference = 1};
  millrace_feed* feed = NULL;
  int32_t code = millrace_feed_open(node, &options, &feed, error);
  while (code == MILLRACE_OK) {
    millrace_batch* batch = NULL;
    code = millrace_feed_next(feed, 1, &batch, error);
    if (code != MILLRACE_OK || batch == NULL) break;
    millrace_tensor id = {.struct_size = sizeof(id)};
    CHECK_OK(millrace_batch_tensor(batch, "id", &id, error), *error);
    struct ArrowSchema schema;
    struct ArrowArray array;
    if (*(const int64_t*)id.data < 0) {
      code = millrace_error_set(error, MILLRACE_DATA_LOSS, "on purpose");
    } else {
      CHECK_OK(millrace_batch_export(batch, &schema, &array, error), *error);
      code = millrace_feed_results(feed, &schema, &array, error);
    }
    millrace_batch_free(batch);
  }
  millrace_feed_close(feed);
  return code;
}

static int32_t WriteModel(const char* directory, void* user_data, millrace_error* error) {
  const char* const what = user_data;
  if (strcmp(what, "fails") == 0) {
    return millrace_error_set(error, MILLRACE_DATA_LOSS, "no weights");
  }
  char path[4096];
  snprintf(path, sizeof(path), "%s/weights", directory);
  FILE* file = fopen(path, "w");
  CHECK(file != NULL && fputs(what, file) >= 0 && fclose(file) == 0);
  return MILLRACE_OK;
}

/* On the chief there is a model then, whole; a failure leaves nothing. */
static void Export(millrace_node* node, const millrace_node_info* who, millrace_error* error) {
  static char fails[] = "fails", weights[] = "weights of all";
  char path[4000], file[4096], read[sizeof(weights)] = "";
  snprintf(path, sizeof(path), "%s/%s", who->working_dir, who->cluster_id);
  snprintf(file, sizeof(file), "%s/weights", path);
  if (who->is_chief) {
    CHECK_ERROR(millrace_node_export_model(node, path, WriteModel, fails, error), *error,
                MILLRACE_DATA_LOSS, "no weights");
    CHECK(fopen(file, "r") == NULL);
  }
  CHECK_OK(millrace_node_export_model(node, path, WriteModel, weights, error), *error);
  if (!who->is_chief) return;
  FILE* const model = fopen(file, "r");
  CHECK(model != NULL && fgets(read, sizeof(read), model) != NULL && fclose(model) == 0);
  CHECK(strcmp(read, weights) == 0);
}

static int32_t Sum(millrace_node* node, void* user_data, millrace_error* error) {
  CHECK(strcmp((const char*)user_data, "sum") == 0);
  millrace_node_info who = {.struct_size = sizeof(who)};
  CHECK_OK(millrace_node_describe(node, &who, error), *error);
  CHECK(who.num_workers == 2 && who.rank == who.task_index && strlen(who.tls_key) > 0);
  double sum = 0;
  int64_t rows = 0;
  int32_t code = Train(node, &sum, &rows, error);
  if (code != MILLRACE_OK) return code;
  millrace_report_metric(node, "sum", rows, sum);
  int64_t all = 0;
  CHECK_OK(millrace_kv_add(node, "rows", rows, NULL, error), *error);
  CHECK_OK(millrace_barrier(node, "trained", 60000, error), *error);
  CHECK_OK(millrace_kv_add(node, "rows", 0, &all, error), *error);
  Export(node, &who, error);
  if (who.is_chief) printf("all rows: %lld\n", (long long)all);
  fflush(stdout);
  return Infer(node, error);
}

/* ---- misuse: every error has a code and says what to do ----------------------------------------
 */

static void MisuseNode(millrace_node* node, millrace_error* error) {
  CHECK_ERROR(millrace_node_open(NULL, error), *error, MILLRACE_INVALID_ARGUMENT, "NULL");
  millrace_node* second = NULL;
  CHECK_ERROR(millrace_node_open(&second, error), *error, MILLRACE_FAILED_PRECONDITION, "once");
  CHECK(second == NULL);
  millrace_node_info info = {.struct_size = 0};
  CHECK_ERROR(millrace_node_describe(node, &info, error), *error, MILLRACE_INVALID_ARGUMENT,
              "struct_size");
  /* A caller of before some members were there gets those that it knows. */
  struct {
    size_t struct_size;
    const char* cluster_id;
    const char* next;
  } old = {2 * sizeof(size_t), NULL, "untouched"};
  CHECK_OK(millrace_node_describe(node, (millrace_node_info*)(void*)&old, error), *error);
  CHECK(old.cluster_id != NULL && strcmp(old.next, "untouched") == 0);
  CHECK_ERROR(millrace_node_wait_for_epoch(node, 1u << 30, 1, error), *error,
              MILLRACE_DEADLINE_EXCEEDED, "epoch");
  CHECK(millrace_node_wait_for_stop(node, 0) == 0);
  char* json = NULL;
  uint64_t epoch = 0;
  CHECK_OK(millrace_node_cluster_spec(node, &json, &epoch, error), *error);
  CHECK(strstr(json, "\"worker\"") != NULL && epoch > 0);
  millrace_free(json);
  char* path = NULL;
  CHECK_OK(millrace_node_absolute_path(node, "/data", &path, error), *error);
  CHECK(strstr(path, "/data") != NULL);
  millrace_free(path);
  millrace_strings gpus = {.struct_size = sizeof(gpus)};
  CHECK_OK(millrace_node_gpus(node, &gpus, error), *error);
  CHECK(gpus.num_items == 0);
  millrace_strings_free(&gpus);
  CHECK_ERROR(millrace_node_claim_gpus(node, 0, NULL, 0, &gpus, error), *error,
              MILLRACE_INVALID_ARGUMENT, "GPUs");
  CHECK_OK(millrace_node_release_port(node, error), *error);
  CHECK(millrace_node_port_fd(node) == -1);
}

static void MisuseKeyValue(millrace_node* node, millrace_error* error) {
  void* value = NULL;
  size_t size = 0;
  CHECK_ERROR(millrace_kv_get(node, "nothing", 0, &value, &size, error), *error, MILLRACE_NOT_FOUND,
              "nothing");
  CHECK_ERROR(millrace_kv_get(node, "nothing", 1, &value, &size, error), *error,
              MILLRACE_DEADLINE_EXCEEDED, "nothing");
  CHECK_ERROR(millrace_kv_set(node, "", "x", 1, error), *error, MILLRACE_INVALID_ARGUMENT, "");
  CHECK_OK(millrace_kv_set(node, "bytes", "a\0b", 3, error), *error);
  CHECK_OK(millrace_kv_get(node, "bytes", -1, &value, &size, error), *error);
  CHECK(size == 3 && memcmp(value, "a\0b", 4) == 0);
  millrace_free(value);
  CHECK_ERROR(millrace_kv_add(node, "bytes", 1, NULL, error), *error, MILLRACE_INVALID_ARGUMENT,
              "bytes");
  CHECK_OK(millrace_kv_delete(node, "bytes", error), *error);
  CHECK_ERROR(millrace_kv_delete(node, "bytes", error), *error, MILLRACE_NOT_FOUND, "bytes");
  /* No error is wanted. */
  CHECK(millrace_kv_delete(node, "bytes", NULL) == MILLRACE_NOT_FOUND);
}

/* Of id, image, name, words, maybe and moment, as one by one. */
static void AllTensors(const millrace_batch* batch, millrace_error* error) {
  millrace_tensor all[6] = {{.struct_size = sizeof(all[0])}};
  CHECK_OK(millrace_batch_tensors(batch, all, 6, error), *error);
  for (int32_t i = 0; i < 6; ++i) {
    const char* const name = millrace_batch_column_name(batch, i);
    millrace_tensor one = {.struct_size = sizeof(one)};
    if (millrace_batch_tensor(batch, name, &one, error) != MILLRACE_OK) {
      CHECK(all[i].type == 0 && strcmp(name, "name") == 0);
      continue;
    }
    CHECK(memcmp(&all[i], &one, sizeof(one)) == 0);
  }
  /* A program of before there was num_nulls. */
  enum { kSize = offsetof(millrace_tensor, num_nulls) };
  _Alignas(millrace_tensor) char old[6 * kSize];
  millrace_tensor* const first = (millrace_tensor*)old;
  first->struct_size = kSize;
  CHECK_OK(millrace_batch_tensors(batch, first, 6, error), *error);
  for (size_t i = 0; i < 6; ++i) {
    all[i].struct_size = kSize;
    CHECK(memcmp(old + i * kSize, &all[i], kSize) == 0);
  }
  CHECK_ERROR(millrace_batch_tensors(batch, all, 5, error), *error, MILLRACE_INVALID_ARGUMENT,
              "num_tensors is 5; the batch has 6 columns");
  all[0].struct_size = sizeof(all[0]) - 1;
  CHECK_ERROR(millrace_batch_tensors(batch, all, 6, error), *error, MILLRACE_INVALID_ARGUMENT,
              "set it to sizeof(millrace_tensor)");
  CHECK_ERROR(millrace_batch_tensors(batch, NULL, 6, error), *error, MILLRACE_INVALID_ARGUMENT,
              "tensors");
}

static void MisuseBatch(millrace_feed* feed, millrace_error* error) {
  millrace_batch* batch = NULL;
  CHECK_ERROR(millrace_feed_next(feed, 0, &batch, error), *error, MILLRACE_INVALID_ARGUMENT,
              "at least 1 row");
  CHECK_OK(millrace_feed_next(feed, 3, &batch, error), *error);
  char* position = NULL;
  CHECK_OK(millrace_feed_position(feed, &position, error), *error);
  CHECK(strstr(position, "\"rows\":[[0,") != NULL && strstr(position, ",0,3]]") != NULL);
  CHECK_ERROR(millrace_feed_resume(feed, position, error), *error, MILLRACE_FAILED_PRECONDITION,
              "before the first");
  millrace_free(position);
  CHECK_ERROR(millrace_feed_resume(feed, "{\"feed\": \"\", \"rows\": [[1]]}", error), *error,
              MILLRACE_INVALID_ARGUMENT, "not [1]");
  millrace_tensor tensor = {.struct_size = sizeof(tensor)};
  CHECK_ERROR(millrace_batch_tensor(batch, "y", &tensor, error), *error, MILLRACE_NOT_FOUND,
              "it has: id, image, name, words, maybe, moment");
  CHECK_ERROR(millrace_batch_tensor(batch, "name", &tensor, error), *error,
              MILLRACE_INVALID_ARGUMENT, "of type utf8 is no tensor");
  CHECK_OK(millrace_batch_tensor(batch, "maybe", &tensor, error), *error);
  CHECK(tensor.num_nulls == 1);
  struct DLManagedTensor* shared = NULL;
  CHECK_ERROR(millrace_batch_dlpack(batch, "maybe", &shared, error), *error,
              MILLRACE_INVALID_ARGUMENT, "1 nulls");
  CHECK_OK(millrace_batch_tensor(batch, "moment", &tensor, error), *error);
  CHECK(tensor.type == MILLRACE_TIMESTAMP_US);
  CHECK_ERROR(millrace_batch_dlpack(batch, "moment", &shared, error), *error,
              MILLRACE_INVALID_ARGUMENT, "timestamps");
  AllTensors(batch, error);
  char* type = NULL;
  CHECK_OK(millrace_batch_column_type(batch, "image", &type, error), *error);
  CHECK(strcmp(type, "fixed_size_list<float32>[4]") == 0);
  millrace_free(type);
  struct ArrowSchema schema;
  struct ArrowArray array;
  CHECK_OK(millrace_batch_export(batch, &schema, &array, error), *error);
  CHECK(array.length == 3 && array.n_children == 6);
  CHECK_ERROR(millrace_feed_results(feed, &schema, &array, error), *error,
              MILLRACE_FAILED_PRECONDITION, "train_mode");
  CHECK(schema.release == NULL && array.release == NULL); /* taken over */
  millrace_batch_free(batch);
}

static void MisuseBuilder(millrace_error* error) {
  struct ArrowSchema schema;
  struct ArrowArray array;
  millrace_builder* builder = millrace_builder_new();
  float numbers[6] = {0};
  millrace_tensor tensor = {.struct_size = sizeof(tensor),
                            .data = numbers,
                            .type = MILLRACE_FLOAT32,
                            .ndim = 2,
                            .shape = {3, 2}};
  CHECK_OK(millrace_builder_add(builder, "a", &tensor, NULL, error), *error);
  tensor.shape[0] = 2;
  CHECK_OK(millrace_builder_add(builder, "b", &tensor, NULL, error), *error);
  CHECK_ERROR(millrace_builder_finish(builder, &schema, &array, error), *error,
              MILLRACE_INVALID_ARGUMENT, "\"b\"");
  tensor.type = 99;
  CHECK_ERROR(millrace_builder_add(builder, "c", &tensor, NULL, error), *error,
              MILLRACE_INVALID_ARGUMENT, "99 is no millrace_type");
  millrace_builder_free(builder);
}

static int32_t Misuse(millrace_node* node, void* user_data, millrace_error* error) {
  (void)user_data;
  MisuseNode(node, error);
  MisuseKeyValue(node, error);
  MisuseBuilder(error);
  millrace_feed_options options = {.struct_size = sizeof(options), .queue = "nowhere"};
  millrace_feed* feed = NULL;
  CHECK_ERROR(millrace_feed_open(node, &options, &feed, error), *error, MILLRACE_NOT_FOUND,
              "nowhere");
  CHECK_OK(millrace_feed_open(node, NULL, &feed, error), *error);
  MisuseBatch(feed, error);
  CHECK_OK(millrace_feed_terminate(feed, error), *error);
  millrace_feed_close(feed);
  return millrace_error_set(error, MILLRACE_DATA_LOSS, "on purpose");
}

static int32_t Again(millrace_node* node, void* user_data, millrace_error* error) {
  (void)user_data;
  millrace_node_info who = {.struct_size = sizeof(who)};
  CHECK_OK(millrace_node_describe(node, &who, error), *error);
  if (who.attempt == 0) return millrace_error_set(error, MILLRACE_DATA_LOSS, "the first time");
  printf("the second time\n");
  fflush(stdout);
  return MILLRACE_OK;
}

/* ---- outlive: memory is valid when batch, feed and node are gone --------------------------------
 */

static void Outlive(void) {
  millrace_error error = MILLRACE_ERROR_INIT;
  millrace_node* node = NULL;
  millrace_feed* feed = NULL;
  millrace_batch* batch = NULL;
  CHECK_OK(millrace_node_open(&node, &error), error);
  CHECK_OK(millrace_feed_open(node, NULL, &feed, &error), error);
  /* More rows than a partition has: they are joined; then a slice of what was received. */
  for (int64_t rows = 25; rows > 0; rows -= 22) {
    CHECK_OK(millrace_feed_next(feed, rows, &batch, &error), error);
    CHECK(millrace_batch_num_rows(batch) == rows);
    if (rows > 3) millrace_batch_free(batch);
  }
  struct DLManagedTensor* image = NULL;
  struct ArrowSchema schema, name_schema;
  struct ArrowArray array, name;
  CHECK_OK(millrace_batch_dlpack(batch, "image", &image, &error), error);
  CHECK_OK(millrace_batch_export(batch, &schema, &array, &error), error);
  CHECK_OK(millrace_batch_export_column(batch, "name", &name_schema, &name, &error), error);
  CHECK(strcmp(name_schema.format, "u") == 0 && strcmp(name_schema.name, "name") == 0);
  millrace_tensor words = {.struct_size = sizeof(words)};
  CHECK_OK(millrace_batch_tensor(batch, "words", &words, &error), error);
  CHECK(words.ndim == 2 && words.shape[1] == 2 && words.type == MILLRACE_INT32);
  millrace_batch_free(batch);
  struct ArrowArrayStream stream;
  CHECK_OK(millrace_feed_stream(feed, 1, &stream, &error), error);
  CHECK_OK(millrace_feed_terminate(feed, &error), error);
  CHECK_OK(millrace_node_close(node, MILLRACE_OK, NULL, &error), error);
  CHECK_ERROR(millrace_feed_results(feed, &schema, &array, &error), error,
              MILLRACE_FAILED_PRECONDITION, "train_mode");
  CHECK_OK(millrace_feed_next(feed, 1, &batch, &error), error);
  CHECK(batch == NULL);
  millrace_feed_close(feed);

  struct ArrowSchema stream_schema;
  struct ArrowArray last, end;
  CHECK(stream.get_schema(&stream, &stream_schema) == 0 && stream_schema.n_children == 6);
  CHECK(stream.get_next(&stream, &last) == 0 && last.release != NULL && last.length == 1);
  CHECK(stream.get_next(&stream, &end) == 0 && end.release == NULL);
  stream.release(&stream);
  stream_schema.release(&stream_schema);
  const struct ArrowArray* const last_id = last.children[0];
  const int64_t id = ((const int64_t*)last_id->buffers[1])[last_id->offset];
  CHECK(id >= 0 && id < 30);
  last.release(&last);

  const DLTensor* tensor = &image->dl_tensor;
  CHECK(tensor->ndim == 2 && tensor->shape[0] == 3 && tensor->shape[1] == 4);
  CHECK(tensor->code == 2 && tensor->bits == 32 && tensor->lanes == 1);
  float* values = tensor->data;
  const float first = values[0];
  for (int i = 0; i < 12; ++i) CHECK(fabsf(values[i] - (first + (float)(i / 4))) < 1e-6f);
  for (int i = 0; i < 12; ++i) values[i] = -1; /* it is this process's alone */
  image->deleter(image);

  const int32_t* offsets = name.buffers[1];
  const char* bytes = name.buffers[2];
  CHECK(name.length == 3 && memcmp(bytes + offsets[name.offset], "row", 3) == 0);
  name.release(&name);
  name_schema.release(&name_schema);
  millrace_error_clear(&error);
}

int main(int argc, char** argv) {
  const char* what = argc > 1 ? argv[1] : "";
  if (strcmp(what, "sum") == 0) return millrace_run_node(Sum, argv[1]);
  if (strcmp(what, "echo") == 0) return millrace_run_node(Echo, NULL);
  if (strcmp(what, "misuse") == 0) return millrace_run_node(Misuse, NULL);
  if (strcmp(what, "again") == 0) return millrace_run_node(Again, NULL);
  if (strcmp(what, "outlive") == 0) {
    Outlive();
    printf("outlived\n");
    return 0;
  }
  /* Without an agent. */
  millrace_error error = MILLRACE_ERROR_INIT;
  millrace_node* node = NULL;
  CHECK_ERROR(millrace_node_open(&node, &error), error, MILLRACE_FAILED_PRECONDITION, "agent");
  millrace_error_clear(&error);
  return millrace_run_node(Sum, NULL);
}
