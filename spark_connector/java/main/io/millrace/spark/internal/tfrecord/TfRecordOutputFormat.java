package io.millrace.spark.internal.tfrecord;

import java.io.DataOutputStream;
import java.io.IOException;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FSDataOutputStream;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.io.BytesWritable;
import org.apache.hadoop.io.NullWritable;
import org.apache.hadoop.io.compress.CompressionCodec;
import org.apache.hadoop.io.compress.GzipCodec;
import org.apache.hadoop.mapreduce.RecordWriter;
import org.apache.hadoop.mapreduce.TaskAttemptContext;
import org.apache.hadoop.mapreduce.lib.output.FileOutputFormat;
import org.apache.hadoop.util.ReflectionUtils;

/**
 * TFRecord files in any of Hadoop's file systems, a record for each key: what rdd.saveAsNewAPIHadoopFile is given.
 * Compressed if Hadoop's settings for output say so.
 */
public final class TfRecordOutputFormat extends FileOutputFormat<BytesWritable, NullWritable> {
  @Override
  public RecordWriter<BytesWritable, NullWritable> getRecordWriter(TaskAttemptContext context) throws IOException {
    Configuration conf = context.getConfiguration();
    CompressionCodec codec = null;
    if (getCompressOutput(context)) {
      codec = ReflectionUtils.newInstance(getOutputCompressorClass(context, GzipCodec.class), conf);
    }
    Path file = getDefaultWorkFile(context, codec == null ? "" : codec.getDefaultExtension());
    FSDataOutputStream out = file.getFileSystem(conf).create(file, false);
    return new Writer(codec == null ? out : new DataOutputStream(codec.createOutputStream(out)));
  }

  private static final class Writer extends RecordWriter<BytesWritable, NullWritable> {
    private final DataOutputStream out;
    private final byte[] header = new byte[12];
    private final byte[] footer = new byte[4];

    Writer(DataOutputStream out) {
      this.out = out;
    }

    @Override
    public void write(BytesWritable record, NullWritable nothing) throws IOException {
      LittleEndian.putInt(header, 0, record.getLength());
      LittleEndian.putInt(header, 8, MaskedCrc32c.of(header, 0, 8));
      LittleEndian.putInt(footer, 0, MaskedCrc32c.of(record.getBytes(), 0, record.getLength()));
      out.write(header);
      out.write(record.getBytes(), 0, record.getLength());
      out.write(footer);
    }

    @Override
    public void close(TaskAttemptContext context) throws IOException {
      out.close();
    }
  }
}
