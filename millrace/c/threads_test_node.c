/* The node program of threads_test: threads that use one node and one feed at a time. */

#include <pthread.h>

#include "millrace/c/millrace.h"
#include "millrace/c/test_check.h"
#include "nanoarrow/nanoarrow.h"

enum { kTalkers = 4, kTurns = 20, kRows = 7, kWaiting = 4 };

/* ---- what any thread may call while another one reads ------------------------------------------
 */

typedef struct {
  millrace_node* node;
  millrace_feed* feed;
  int number;
  pthread_t thread;
} Talker;

static void* Talk(void* arg) {
  const Talker* const me = arg;
  millrace_error error = MILLRACE_ERROR_INIT;
  char key[64];
  snprintf(key, sizeof(key), "talker %d", me->number);
  for (int turn = 0; turn < kTurns; ++turn) {
    CHECK_OK(millrace_kv_add(me->node, "turns", 1, NULL, &error), error);
    CHECK_OK(millrace_kv_set(me->node, key, &turn, sizeof(turn), &error), error);
    void* value = NULL;
    size_t size = 0;
    CHECK_OK(millrace_kv_get(me->node, key, -1, &value, &size, &error), error);
    CHECK(size == sizeof(turn)); /* which the other node may have set */
    millrace_free(value);
    millrace_report_metric(me->node, "turn", turn, me->number);
    char* text = NULL;
    CHECK_OK(millrace_feed_position(me->feed, &text, &error), error);
    CHECK(strstr(text, "\"rows\"") != NULL);
    millrace_free(text);
    CHECK_OK(millrace_node_cluster_spec(me->node, &text, NULL, &error), error);
    millrace_free(text);
    CHECK(millrace_node_wait_for_stop(me->node, 0) == 0);
  }
  millrace_error_clear(&error);
  return NULL;
}

static double SumOf(const millrace_batch* batch, millrace_error* error) {
  millrace_tensor id = {.struct_size = sizeof(id)};
  CHECK_OK(millrace_batch_tensor(batch, "x", &id, error), *error);
  double sum = 0;
  for (int64_t i = 0; i < id.shape[0]; ++i) sum += (double)((const int64_t*)id.data)[i];
  return sum;
}

static void Train(millrace_node* node, millrace_error* error) {
  millrace_feed* feed = NULL;
  CHECK_OK(millrace_feed_open(node, NULL, &feed, error), *error);
  Talker talkers[kTalkers];
  for (int i = 0; i < kTalkers; ++i) {
    talkers[i] = (Talker){.node = node, .feed = feed, .number = i};
    CHECK(pthread_create(&talkers[i].thread, NULL, Talk, &talkers[i]) == 0);
  }
  double sum = 0;
  int64_t rows = 0;
  for (;;) {
    millrace_batch* batch = NULL;
    CHECK_OK(millrace_feed_next(feed, kRows, &batch, error), *error);
    if (batch == NULL) break;
    sum += SumOf(batch, error);
    rows += millrace_batch_num_rows(batch);
    millrace_batch_free(batch);
  }
  for (int i = 0; i < kTalkers; ++i) CHECK(pthread_join(talkers[i].thread, NULL) == 0);
  millrace_feed_close(feed);
  millrace_report_metric(node, "sum", rows, sum);
}

/* ---- one thread reads, another one answers ------------------------------------------------------
 */

/* Batches on their way; a NULL is the last. `unanswered` counts those that are not answered yet. */
typedef struct {
  millrace_feed* feed;
  pthread_mutex_t mutex;
  pthread_cond_t changed;
  millrace_batch* batches[kWaiting];
  int begin, size, unanswered;
} Queue;

static void Push(Queue* queue, millrace_batch* batch) {
  pthread_mutex_lock(&queue->mutex);
  while (queue->size == kWaiting) pthread_cond_wait(&queue->changed, &queue->mutex);
  queue->batches[(queue->begin + queue->size++) % kWaiting] = batch;
  if (batch != NULL) ++queue->unanswered;
  pthread_cond_broadcast(&queue->changed);
  pthread_mutex_unlock(&queue->mutex);
}

static millrace_batch* Pop(Queue* queue) {
  pthread_mutex_lock(&queue->mutex);
  while (queue->size == 0) pthread_cond_wait(&queue->changed, &queue->mutex);
  millrace_batch* const batch = queue->batches[queue->begin];
  queue->begin = (queue->begin + 1) % kWaiting;
  --queue->size;
  pthread_cond_broadcast(&queue->changed);
  pthread_mutex_unlock(&queue->mutex);
  return batch;
}

static void Answered(Queue* queue) {
  pthread_mutex_lock(&queue->mutex);
  --queue->unanswered;
  pthread_cond_broadcast(&queue->changed);
  pthread_mutex_unlock(&queue->mutex);
}

static void WaitForAnswers(Queue* queue) {
  pthread_mutex_lock(&queue->mutex);
  while (queue->unanswered > 0) pthread_cond_wait(&queue->changed, &queue->mutex);
  pthread_mutex_unlock(&queue->mutex);
}

/* With the rows themselves, whose memory this thread gives back. */
static void* Answer(void* arg) {
  Queue* const queue = arg;
  millrace_error error = MILLRACE_ERROR_INIT;
  for (millrace_batch* batch = Pop(queue); batch != NULL; batch = Pop(queue)) {
    struct ArrowSchema schema;
    struct ArrowArray array;
    CHECK_OK(millrace_batch_export(batch, &schema, &array, &error), error);
    millrace_batch_free(batch);
    CHECK_OK(millrace_feed_results(queue->feed, &schema, &array, &error), error);
    Answered(queue);
  }
  millrace_error_clear(&error);
  return NULL;
}

static void Infer(millrace_node* node, millrace_error* error) {
  Queue queue = {.mutex = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER};
  const millrace_feed_options options = {.struct_size = sizeof(options), .inference = 1};
  CHECK_OK(millrace_feed_open(node, &options, &queue.feed, error), *error);
  pthread_t answering;
  CHECK(pthread_create(&answering, NULL, Answer, &queue) == 0);
  millrace_batch* batch = NULL;
  do {
    CHECK_OK(millrace_feed_next(queue.feed, kRows, &batch, error), *error);
    /* A short batch is the last of its partition, whose answers are due before the next one. */
    const int last = batch != NULL && millrace_batch_num_rows(batch) < kRows;
    Push(&queue, batch);
    if (last) WaitForAnswers(&queue);
  } while (batch != NULL);
  CHECK(pthread_join(answering, NULL) == 0);
  millrace_feed_close(queue.feed);
}

static int32_t Main(millrace_node* node, void* user_data, millrace_error* error) {
  (void)user_data;
  Train(node, error);
  Infer(node, error);
  int64_t turns = 0;
  CHECK_OK(millrace_barrier(node, "ended", 60000, error), *error);
  CHECK_OK(millrace_kv_add(node, "turns", 0, &turns, error), *error);
  millrace_report_metric(node, "turns", turns, 0);
  return MILLRACE_OK;
}

int main(void) { return millrace_run_node(Main, NULL); }
