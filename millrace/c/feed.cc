// A feed's reader and its results.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "core/base/json.h"
#include "millrace/c/batch.h"
#include "millrace/c/c_support.h"
#include "millrace/c/millrace.h"
#include "millrace/c/node.h"
#include "millrace/data_feed.h"
#include "millrace/record_batch.h"
#include "millrace/schema.h"
#include "millrace/source.h"
#include "millrace/status_macros.h"
#include "nanoarrow/nanoarrow.hpp"

struct millrace_feed {
  explicit millrace_feed(std::unique_ptr<millrace::DataFeed> of) : rows(std::move(of)) {}

  const std::shared_ptr<millrace::DataFeed> rows;  // streams of it hold it too
};

namespace millrace {
namespace {

absl::StatusOr<DataFeedOptions> ReadOptions(const millrace_feed_options* given) {
  MILLRACE_ASSIGN_OR_RETURN(const millrace_feed_options known, ReadStruct(given));
  DataFeedOptions options;
  options.train_mode = known.inference == 0;
  if (known.queue != nullptr) options.queue = known.queue;
  options.batch_rows = known.batch_rows;
  switch (known.equal) {
    case MILLRACE_EQUAL_OFF:
      break;
    case MILLRACE_EQUAL_DROP:
      options.equal = EqualRanks::kDrop;
      break;
    case MILLRACE_EQUAL_PAD:
      options.equal = EqualRanks::kPad;
      break;
    default:
      return absl::InvalidArgumentError(absl::StrCat(
          "millrace_feed_open: options.equal is MILLRACE_EQUAL_OFF, _DROP or _PAD, not ",
          known.equal));
  }
  for (size_t i = 0; i < known.num_columns; ++i) {
    if (known.columns == nullptr || known.columns[i] == nullptr) {
      return NullArgument("millrace_feed_open", absl::StrCat("options.columns[", i, "]"));
    }
    const char* const name = known.names == nullptr ? nullptr : known.names[i];
    options.input_mapping.emplace_back(known.columns[i], name == nullptr ? known.columns[i] : name);
  }
  return options;
}

absl::Status Open(millrace_node* node, const millrace_feed_options* given, millrace_feed** feed) {
  MILLRACE_ASSIGN_OR_RETURN(const DataFeedOptions options, ReadOptions(given));
  MILLRACE_ASSIGN_OR_RETURN(std::unique_ptr<DataFeed> opened,
                            node->context->TryGetDataFeed(options));
  *feed = new millrace_feed(std::move(opened));
  return absl::OkStatus();
}

absl::Status Next(millrace_feed* feed, int64_t rows, int64_t most_rows, millrace_batch** batch) {
  MILLRACE_ASSIGN_OR_RETURN(Batch next, feed->rows->NextBatch(rows, most_rows));
  *batch = next.empty() ? nullptr : new millrace_batch(std::move(next));
  return absl::OkStatus();
}

// The next rows, under the names that the program has for them; nullopt at the end.
absl::StatusOr<std::optional<RecordBatch>> NextRows(DataFeed* feed, int64_t rows) {
  MILLRACE_ASSIGN_OR_RETURN(const Batch next, feed->NextBatch(rows));
  if (next.empty()) return std::optional<RecordBatch>();
  nanoarrow::UniqueSchema schema;
  nanoarrow::UniqueArray array;
  next.Export(schema.get(), array.get());
  MILLRACE_ASSIGN_OR_RETURN(RecordBatch batch, RecordBatch::Import(schema.get(), array.get()));
  return std::optional<RecordBatch>(std::move(batch));
}

// The batches of a feed. The first is there already, since a stream has to know its schema.
class FeedReader final : public RecordBatchReader {
 public:
  FeedReader(std::shared_ptr<DataFeed> feed, int64_t rows, std::optional<RecordBatch> first)
      : feed_(std::move(feed)), rows_(rows), first_(std::move(first)) {
    if (first_.has_value()) schema_ = first_->schema();
  }

  const Schema& schema() const override { return schema_; }
  absl::StatusOr<std::optional<RecordBatch>> Next() override {
    if (first_.has_value()) return std::exchange(first_, std::nullopt);
    MILLRACE_ASSIGN_OR_RETURN(std::optional<RecordBatch> next, NextRows(feed_.get(), rows_));
    if (next.has_value() && next->schema() != schema_) {
      return absl::InvalidArgumentError(
          absl::StrCat("the batches of one stream have one schema; read those of Train calls that "
                       "differ with millrace_feed_next(): ",
                       Schema::DescribeDifference(schema_, next->schema())));
    }
    return next;
  }

 private:
  const std::shared_ptr<DataFeed> feed_;
  const int64_t rows_;
  std::optional<RecordBatch> first_;
  Schema schema_;  // without columns if the feed has ended before its first row
};

absl::Status Stream(millrace_feed* feed, int64_t rows, ArrowArrayStream* out) {
  MILLRACE_ASSIGN_OR_RETURN(std::optional<RecordBatch> first, NextRows(feed->rows.get(), rows));
  ExportReader(std::make_unique<FeedReader>(feed->rows, rows, std::move(first)), out);
  return absl::OkStatus();
}

absl::Status Position(millrace_feed* feed, char** out) {
  const FeedPosition position = feed->rows->Position();
  Json rows = Json::array();
  for (const FeedRows& each : position.rows) {
    rows.push_back(Json::array({each.data_epoch, each.partition, each.first_row, each.end_row}));
  }
  const Json json = {{"feed", position.feed_id}, {"rows", std::move(rows)}};
  *out = CopyText(DumpJson(json));
  return absl::OkStatus();
}

absl::StatusOr<FeedRows> ReadRows(const Json& given) {
  const bool four_numbers = given.is_array() && given.size() == 4 &&
                            std::all_of(given.begin(), given.end(), [](const Json& number) {
                              return number.is_number_integer();
                            });
  if (!four_numbers) {
    return absl::InvalidArgumentError(absl::StrCat(
        "rows of a position are [epoch, partition, first row, row after the last], not ",
        DumpJson(given)));
  }
  const auto number = [&given](size_t i) { return given[i].get<int64_t>(); };
  return FeedRows{number(0), number(1), number(2), number(3)};
}

absl::Status Resume(millrace_feed* feed, const char* given) {
  MILLRACE_ASSIGN_OR_RETURN(const Json json, ParseJson(given));
  FeedPosition position;
  MILLRACE_ASSIGN_OR_RETURN(position.feed_id, GetString(json, "feed"));
  MILLRACE_ASSIGN_OR_RETURN(const Json* rows, GetArray(json, "rows"));
  for (const Json& each : *rows) {
    MILLRACE_ASSIGN_OR_RETURN(const FeedRows read, ReadRows(each));
    position.rows.push_back(read);
  }
  return feed->rows->Resume(position);
}

absl::Status Results(millrace_feed* feed, ArrowSchema* schema, ArrowArray* array) {
  MILLRACE_ASSIGN_OR_RETURN(const RecordBatch results, RecordBatch::Import(schema, array));
  return feed->rows->BatchResults(results);
}

}  // namespace
}  // namespace millrace

using ::millrace::NullArgument;
using ::millrace::ReportStatus;

int32_t millrace_feed_open(millrace_node* node, const millrace_feed_options* options,
                           millrace_feed** feed, millrace_error* error) {
  if (node == nullptr || feed == nullptr) {
    return ReportStatus(NullArgument("millrace_feed_open", "node or feed"), error);
  }
  return ReportStatus(millrace::Open(node, options, feed), error);
}

void millrace_feed_close(millrace_feed* feed) { delete feed; }

int32_t millrace_feed_next(millrace_feed* feed, int64_t rows, millrace_batch** batch,
                           millrace_error* error) {
  if (feed == nullptr || batch == nullptr) {
    return ReportStatus(NullArgument("millrace_feed_next", "feed or batch"), error);
  }
  return ReportStatus(millrace::Next(feed, rows, rows, batch), error);
}

int32_t millrace_feed_next_up_to(millrace_feed* feed, int64_t rows, int64_t most_rows,
                                 millrace_batch** batch, millrace_error* error) {
  if (feed == nullptr || batch == nullptr) {
    return ReportStatus(NullArgument("millrace_feed_next_up_to", "feed or batch"), error);
  }
  return ReportStatus(millrace::Next(feed, rows, most_rows, batch), error);
}

int32_t millrace_feed_stream(millrace_feed* feed, int64_t rows, struct ArrowArrayStream* out,
                             millrace_error* error) {
  if (feed == nullptr || out == nullptr) {
    return ReportStatus(NullArgument("millrace_feed_stream", "feed or out"), error);
  }
  return ReportStatus(millrace::Stream(feed, rows, out), error);
}

int32_t millrace_feed_should_stop(millrace_feed* feed) {
  return feed == nullptr || feed->rows->ShouldStop() ? 1 : 0;
}

int32_t millrace_feed_results(millrace_feed* feed, struct ArrowSchema* schema,
                              struct ArrowArray* array, millrace_error* error) {
  if (feed == nullptr || schema == nullptr || array == nullptr) {
    return ReportStatus(NullArgument("millrace_feed_results", "feed, schema or array"), error);
  }
  return ReportStatus(millrace::Results(feed, schema, array), error);
}

int32_t millrace_feed_position(millrace_feed* feed, char** position, millrace_error* error) {
  if (feed == nullptr || position == nullptr) {
    return ReportStatus(NullArgument("millrace_feed_position", "feed or position"), error);
  }
  return ReportStatus(millrace::Position(feed, position), error);
}

int32_t millrace_feed_resume(millrace_feed* feed, const char* position, millrace_error* error) {
  if (feed == nullptr || position == nullptr) {
    return ReportStatus(NullArgument("millrace_feed_resume", "feed or position"), error);
  }
  return ReportStatus(millrace::Resume(feed, position), error);
}

int32_t millrace_feed_terminate(millrace_feed* feed, millrace_error* error) {
  if (feed == nullptr) {
    return ReportStatus(NullArgument("millrace_feed_terminate", "feed"), error);
  }
  return ReportStatus(feed->rows->Terminate(), error);
}
