package io.millrace.spark.internal.spark;

import io.millrace.spark.internal.feed.FeedResult;
import io.millrace.spark.internal.rows.ResultReader;
import java.io.Serializable;
import java.util.Iterator;

/** What results are made into. */
interface RowMaker<R> extends Serializable {
  Iterator<R> rows(ResultReader reader, FeedResult result);
}
