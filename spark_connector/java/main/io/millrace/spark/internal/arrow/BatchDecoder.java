package io.millrace.spark.internal.arrow;

import io.millrace.spark.internal.base.BadInputException;
import io.millrace.spark.internal.base.Text;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;

/**
 * Reads batches of one schema where they lie, after the checks of docs/feed_protocol.md, section 7: first
 * every number in the metadata against the schema, the rows and the body, then what is in the buffers.
 * Immutable.
 */
public final class BatchDecoder {
  private final ArrowSchema schema;

  public BatchDecoder(ArrowSchema schema) {
    this.schema = schema;
  }

  public ArrowSchema schema() {
    return schema;
  }

  /**
   * The columns of a batch; views into {@code parts}.
   *
   * @param message one encapsulated RecordBatch message
   * @param rows as the frame says, at least 1
   */
  public List<ColumnView> decode(ByteBuffer message, int rows, List<ByteBuffer> parts) throws BadInputException {
    Body body = new Body(parts);
    ArrowMessage envelope = ArrowMessage.read(message, ArrowMessage.RECORD_BATCH);
    FlatTable header = envelope.header;
    if (envelope.bodyLength < 0 || envelope.bodyLength > body.size) {
      throw new BadInputException(
          "the message has a body of " + envelope.bodyLength + " bytes, " + body.size + " came");
    }
    if (header.int64(0, 0) != rows) {
      throw new BadInputException("the message has " + header.int64(0, 0) + " rows, the frame " + rows);
    }
    if (header.table(3) != null) {
      throw new BadInputException("the body is compressed");
    }
    Reader reader = new Reader(header.vector(1, 16), header.vector(2, 16), body);
    List<ColumnView> columns = new ArrayList<>();
    for (ArrowField field : schema.fields()) {
      try {
        columns.add(reader.read(field.type(), rows, true));
      } catch (BadInputException e) {
        throw new BadInputException("column " + Text.quoted(field.name()) + ": " + e.getMessage());
      }
    }
    reader.checkAllRead();
    for (int i = 0; i < columns.size(); i++) {
      checkContent(schema.fields().get(i).name(), columns.get(i));
    }
    return columns;
  }

  /** The body: parts at their offsets. */
  private static final class Body {
    private static final ByteBuffer EMPTY = ByteBuffer.allocate(0).order(ByteOrder.LITTLE_ENDIAN);

    private final List<ByteBuffer> parts;
    private final long[] starts;
    private final long size;

    Body(List<ByteBuffer> parts) {
      this.parts = parts;
      starts = new long[parts.size()];
      long at = 0;
      for (int i = 0; i < starts.length; i++) {
        starts[i] = at;
        at += (parts.get(i).remaining() + 7L) & ~7L;
      }
      size = at;
    }

    ByteBuffer find(long offset, long length) throws BadInputException {
      if (offset < 0 || offset % 8 != 0 || length < 0 || offset > size) {
        throw new BadInputException(
            "a buffer of " + length + " bytes at offset " + offset + " of a body of " + size);
      }
      if (length == 0) {
        return EMPTY;
      }
      int i = Arrays.binarySearch(starts, offset);
      int part = i >= 0 ? lastAt(i) : -i - 2;
      if (part < 0) {
        throw new BadInputException("a buffer without a body");
      }
      ByteBuffer in = parts.get(part);
      long at = offset - starts[part];
      if (at > in.remaining() || length > in.remaining() - at) {
        throw new BadInputException(
            "a buffer of " + length + " bytes at offset " + offset + " does not lie within one body part");
      }
      ByteBuffer view = in.duplicate();
      view.position(in.position() + (int) at);
      view.limit(view.position() + (int) length);
      return view.slice().order(ByteOrder.LITTLE_ENDIAN);
    }

    /** Of parts with the same start (empty ones have no size) the last. */
    private int lastAt(int i) {
      int last = i;
      while (last + 1 < starts.length && starts[last + 1] == starts[i]) {
        last++;
      }
      return last;
    }
  }

  /** Reads columns in the order of the schema. */
  private static final class Reader {
    private final FlatTable.Vector nodes;
    private final FlatTable.Vector buffers;
    private final Body body;
    private int nextNode;
    private int nextBuffer;
    private long bufferBytes;

    Reader(FlatTable.Vector nodes, FlatTable.Vector buffers, Body body) {
      this.nodes = nodes;
      this.buffers = buffers;
      this.body = body;
    }

    /** A column or field of {@code length} rows; if not {@code exact}, of as many or more. */
    ColumnView read(ArrowType type, long length, boolean exact) throws BadInputException {
      if (nextNode == nodes.size()) {
        throw new BadInputException("no field node; there are " + nodes.size());
      }
      long nodeLength = nodes.int64(nextNode, 0);
      long nulls = nodes.int64(nextNode, 8);
      nextNode++;
      boolean fits = exact ? nodeLength == length : nodeLength >= length;
      if (!fits || nodeLength > Integer.MAX_VALUE || nulls < 0 || nulls > nodeLength) {
        throw new BadInputException(
            "length " + nodeLength + " and " + nulls + " nulls where length " + length + " is needed");
      }
      int rows = (int) nodeLength;
      ByteBuffer validity = next();
      if (nulls > 0) {
        require(validity, (nodeLength + 7) / 8, "validity");
      }
      ByteBuffer valid = nulls > 0 ? validity : null;
      ArrowType.Id id = type.id();
      if (id.isPrimitive()) {
        ByteBuffer data = next();
        require(data, id.width == 0 ? (nodeLength + 7) / 8 : nodeLength * id.width, "values");
        return new ColumnView(type, rows, valid, null, data);
      }
      if (id == ArrowType.Id.STRUCT) {
        ColumnView[] fields = new ColumnView[type.children().size()];
        for (int i = 0; i < fields.length; i++) {
          fields[i] = read(type.children().get(i).type(), nodeLength, true);
        }
        return new ColumnView(type, rows, valid, null, null, fields);
      }
      if (id == ArrowType.Id.FIXED_SIZE_LIST) {
        ColumnView values = read(type.element().type(), nodeLength * type.listSize(), true);
        return new ColumnView(type, rows, valid, null, null, values);
      }
      ByteBuffer offsets = next();
      if (rows > 0) {
        require(offsets, (nodeLength + 1) * (id.isLarge() ? 8 : 4), "offsets");
      }
      ByteBuffer data = id.isList() ? null : next();
      ColumnView view = new ColumnView(type, rows, valid, offsets, data);
      long last = checkOffsets(view);
      if (id.isList()) {
        return new ColumnView(type, rows, valid, offsets, null, read(type.element().type(), last, false));
      }
      if (last > data.remaining()) {
        throw new BadInputException("offsets up to " + last + " in " + data.remaining() + " bytes of data");
      }
      return view;
    }

    /** Returns the last offset, 0 if there are no rows. */
    private static long checkOffsets(ColumnView view) throws BadInputException {
      if (view.rows() == 0) {
        return 0;
      }
      long before = view.offset(0);
      if (before < 0) {
        throw new BadInputException("the first offset is " + before);
      }
      for (int row = 1; row <= view.rows(); row++) {
        long offset = view.offset(row);
        if (offset < before) {
          throw new BadInputException("offset " + offset + " after " + before);
        }
        before = offset;
      }
      return before;
    }

    private ByteBuffer next() throws BadInputException {
      if (nextBuffer == buffers.size()) {
        throw new BadInputException("no buffer; there are " + buffers.size());
      }
      int i = nextBuffer++;
      ByteBuffer found = body.find(buffers.int64(i, 0), buffers.int64(i, 8));
      bufferBytes += found.remaining();
      if (bufferBytes > body.size) {
        throw new BadInputException("buffers that share bytes: " + bufferBytes + " in a body of " + body.size);
      }
      return found;
    }

    private static void require(ByteBuffer buffer, long bytes, String what) throws BadInputException {
      if (buffer.remaining() < bytes) {
        throw new BadInputException(
            "a " + what + " buffer of " + buffer.remaining() + " bytes, " + bytes + " are needed");
      }
    }

    void checkAllRead() throws BadInputException {
      if (nextNode != nodes.size() || nextBuffer != buffers.size()) {
        throw new BadInputException(
            nodes.size() + " nodes and " + buffers.size() + " buffers where the schema has " + nextNode + " and "
                + nextBuffer);
      }
    }
  }

  private static void checkContent(String name, ColumnView column) throws BadInputException {
    for (int i = 0; i < column.type().children().size(); i++) {
      checkContent(name, column.child(i));
    }
    if (!column.type().id().isUtf8()) {
      return;
    }
    // Row by row: the bytes of all rows together may be valid where a row begins within a character, and
    // what a null row holds is nobody's business.
    for (int row = 0; row < column.rows(); row++) {
      if (!column.isNull(row) && !isUtf8(column.bytes(row))) {
        throw new BadInputException("column " + Text.quoted(name) + ": row " + row + " is not valid UTF-8");
      }
    }
  }

  private static boolean isUtf8(ByteBuffer text) {
    int i = text.position();
    while (i < text.limit() && text.get(i) >= 0) {
      i++;
    }
    if (i == text.limit()) {
      return true;
    }
    try {
      Text.decodeUtf8(text);
      return true;
    } catch (BadInputException e) {
      return false;
    }
  }
}
