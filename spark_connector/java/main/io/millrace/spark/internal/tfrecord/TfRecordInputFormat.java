package io.millrace.spark.internal.tfrecord;

import java.io.BufferedInputStream;
import java.io.EOFException;
import java.io.IOException;
import java.io.InputStream;
import java.util.Arrays;
import java.util.zip.GZIPInputStream;
import java.util.zip.InflaterInputStream;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.io.BytesWritable;
import org.apache.hadoop.io.NullWritable;
import org.apache.hadoop.io.compress.CodecPool;
import org.apache.hadoop.io.compress.CompressionCodec;
import org.apache.hadoop.io.compress.CompressionCodecFactory;
import org.apache.hadoop.io.compress.Decompressor;
import org.apache.hadoop.mapreduce.InputSplit;
import org.apache.hadoop.mapreduce.JobContext;
import org.apache.hadoop.mapreduce.RecordReader;
import org.apache.hadoop.mapreduce.TaskAttemptContext;
import org.apache.hadoop.mapreduce.lib.input.FileInputFormat;
import org.apache.hadoop.mapreduce.lib.input.FileSplit;

/**
 * TFRecord files of any of Hadoop's file systems, each record a key: what sc.newAPIHadoopFile is given. Files are
 * decompressed by their names (".gz"), or by how they begin, as TensorFlow gives compressed ones any name. A file is a
 * partition; what is wrong with it is an IOException that names it and the place.
 */
public final class TfRecordInputFormat extends FileInputFormat<BytesWritable, NullWritable> {
  private static final int HEADER_BYTES = 12; // length and its checksum
  private static final int FOOTER_BYTES = 4;
  private static final int BUFFER_BYTES = 1 << 16;
  private static final int MAX_RECORD_BYTES = Integer.MAX_VALUE - 64;
  /** A length that lies takes no memory before so many bytes of it are there. */
  private static final int STEP_BYTES = 1 << 24;

  @Override
  protected boolean isSplitable(JobContext context, Path file) {
    return false;
  }

  @Override
  public RecordReader<BytesWritable, NullWritable> createRecordReader(InputSplit split, TaskAttemptContext context) {
    return new Reader();
  }

  private static final class Reader extends RecordReader<BytesWritable, NullWritable> {
    private final BytesWritable record = new BytesWritable();
    private final byte[] header = new byte[HEADER_BYTES];
    private final byte[] footer = new byte[FOOTER_BYTES];
    private Path file;
    private InputStream in;
    private Decompressor decompressor;
    private long at; // of the record that is read, in what is decompressed
    private long records;
    private boolean ended;

    @Override
    public void initialize(InputSplit split, TaskAttemptContext context) throws IOException {
      file = ((FileSplit) split).getPath();
      Configuration conf = context.getConfiguration();
      in = file.getFileSystem(conf).open(file);
      CompressionCodec codec = new CompressionCodecFactory(conf).getCodec(file);
      if (codec != null) {
        decompressor = CodecPool.getDecompressor(codec);
        in = codec.createInputStream(in, decompressor);
      } else {
        in = decompressed(new BufferedInputStream(in, BUFFER_BYTES));
      }
    }

    /** What GZIP's or ZLIB's first bytes say, unless they are the header of a record. */
    private InputStream decompressed(InputStream given) throws IOException {
      given.mark(HEADER_BYTES);
      int have = 0;
      for (int count = 0; count >= 0 && have < HEADER_BYTES; have += Math.max(count, 0)) {
        count = given.read(header, have, HEADER_BYTES - have);
      }
      given.reset();
      if (have < 2 || have == HEADER_BYTES && hasLength()) {
        return given;
      }
      int first = header[0] & 255;
      int second = header[1] & 255;
      if (first == 0x1f && second == 0x8b) {
        return new GZIPInputStream(given, BUFFER_BYTES);
      }
      return (first & 15) == 8 && (first << 8 | second) % 31 == 0 ? new InflaterInputStream(given) : given;
    }

    private boolean hasLength() {
      return LittleEndian.getInt(header, 8) == MaskedCrc32c.of(header, 0, 8);
    }

    @Override
    public boolean nextKeyValue() throws IOException {
      int first = in.read();
      if (first < 0) {
        ended = true;
        return false;
      }
      header[0] = (byte) first;
      read(header, 1, HEADER_BYTES - 1);
      long length = LittleEndian.getLong(header, 0);
      if (!hasLength()) {
        throw bad("the checksum of its length is wrong: the file is damaged, or no TFRecord file");
      }
      if (length < 0 || length > MAX_RECORD_BYTES) {
        throw bad("it has " + Long.toUnsignedString(length) + " bytes; the most is " + MAX_RECORD_BYTES);
      }
      byte[] data = new byte[(int) Math.min(length, STEP_BYTES)];
      int have = 0;
      while (have < length) {
        if (have == data.length) {
          data = Arrays.copyOf(data, (int) Math.min(length, 2L * data.length));
        }
        read(data, have, data.length - have);
        have = data.length;
      }
      read(footer, 0, FOOTER_BYTES);
      if (LittleEndian.getInt(footer, 0) != MaskedCrc32c.of(data, 0, have)) {
        throw bad("its checksum is wrong: the file is damaged");
      }
      record.set(data, 0, have);
      at += HEADER_BYTES + length + FOOTER_BYTES;
      records++;
      return true;
    }

    private void read(byte[] into, int offset, int length) throws IOException {
      int have = 0;
      while (have < length) {
        int count = in.read(into, offset + have, length - have);
        if (count < 0) {
          throw new EOFException(place("the file ends within it"));
        }
        have += count;
      }
    }

    private IOException bad(String what) {
      return new IOException(place(what));
    }

    private String place(String what) {
      return file + ": record " + records + " at byte " + at + ": " + what;
    }

    @Override
    public BytesWritable getCurrentKey() {
      return record;
    }

    @Override
    public NullWritable getCurrentValue() {
      return NullWritable.get();
    }

    @Override
    public float getProgress() {
      return ended ? 1 : 0;
    }

    @Override
    public void close() throws IOException {
      if (in != null) {
        in.close();
        CodecPool.returnDecompressor(decompressor);
        decompressor = null;
      }
    }
  }
}
