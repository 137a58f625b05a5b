package io.millrace.spark.internal.arrow;

import io.millrace.spark.internal.base.BadInputException;
import io.millrace.spark.internal.base.Text;
import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.Collections;
import java.util.HashSet;
import java.util.List;
import java.util.Set;

/** A schema as the metadata of a SCHEMA frame, both ways. */
public final class SchemaMessage {
  private static final int MAX_COLUMNS = 65_536;

  // Arrow's numbers of types.
  private static final int INT = 2;
  private static final int FLOATING_POINT = 3;
  private static final int BINARY = 4;
  private static final int UTF8 = 5;
  private static final int BOOL = 6;
  private static final int FIXED_SIZE_LIST = 16;
  private static final int LARGE_BINARY = 19;
  private static final int LARGE_UTF8 = 20;

  private SchemaMessage() {}

  public static byte[] encode(ArrowSchema schema) {
    List<FlatWriter.Table> fields = new ArrayList<>();
    for (ArrowField field : schema.fields()) {
      fields.add(field(field));
    }
    FlatWriter.Table root =
        new FlatWriter.Table()
            .scalar(0, 2, ArrowMessage.VERSION_5)
            .scalar(1, 1, ArrowMessage.SCHEMA)
            .table(2, new FlatWriter.Table().tables(1, fields))
            .scalar(3, 8, 0);
    return ArrowMessage.wrap(FlatWriter.write(root));
  }

  private static FlatWriter.Table field(ArrowField field) {
    ArrowType type = field.type();
    FlatWriter.Table details = new FlatWriter.Table();
    int number;
    switch (type.id()) {
      case BOOL:
        number = BOOL;
        break;
      case UTF8:
        number = UTF8;
        break;
      case LARGE_UTF8:
        number = LARGE_UTF8;
        break;
      case BINARY:
        number = BINARY;
        break;
      case LARGE_BINARY:
        number = LARGE_BINARY;
        break;
      case FIXED_SIZE_LIST:
        number = FIXED_SIZE_LIST;
        details.scalar(0, 4, type.listSize());
        break;
      case FLOAT16:
      case FLOAT32:
      case FLOAT64:
        number = FLOATING_POINT;
        details.scalar(0, 2, type.id().ordinal() - ArrowType.Id.FLOAT16.ordinal());
        break;
      default:
        number = INT;
        boolean signed = type.id().ordinal() < ArrowType.Id.UINT8.ordinal();
        details.scalar(0, 4, 8 * type.id().width).scalar(1, 1, signed ? 1 : 0);
    }
    List<FlatWriter.Table> children =
        type.isList()
            ? Collections.singletonList(field(type.element()))
            : Collections.<FlatWriter.Table>emptyList();
    return new FlatWriter.Table()
        .string(0, field.name())
        .scalar(1, 1, field.nullable() ? 1 : 0)
        .scalar(2, 1, number)
        .table(3, details)
        .tables(5, children);
  }

  /** The schema of a message. Types that a feed does not carry are bad input; the column is named. */
  public static ArrowSchema decode(ByteBuffer message) throws BadInputException {
    FlatTable schema = ArrowMessage.read(message, ArrowMessage.SCHEMA).header;
    if (schema.int16(0, 0) != 0) {
      throw new BadInputException("the schema is big-endian");
    }
    FlatTable.Vector columns = schema.vector(1, 4);
    // A message that seems to have more fields than bytes refers to the same ones again and again.
    if (columns.size() > MAX_COLUMNS || columns.size() > message.remaining() / 8) {
      throw new BadInputException(columns.size() + " columns");
    }
    List<ArrowField> fields = new ArrayList<>();
    Set<String> names = new HashSet<>();
    long left = message.remaining();
    for (int i = 0; i < columns.size(); i++) {
      ArrowField field = readField(columns.table(i), null);
      left -= field.name().length();
      if (left < 0) {
        throw new BadInputException("malformed flatbuffer: more names than bytes");
      }
      if (!names.add(field.name())) {
        throw new BadInputException("two columns have the name " + Text.quoted(field.name()));
      }
      fields.add(field);
    }
    return new ArrowSchema(fields);
  }

  /** {@code column}: the name of the list whose element it is; null for a column itself. */
  private static ArrowField readField(FlatTable table, String column) throws BadInputException {
    String name = table.string(0);
    String place = column == null ? name : column;
    FlatTable details = table.table(3);
    if (details == null) {
      throw new BadInputException("malformed flatbuffer: a field without a type");
    }
    if (table.table(4) != null) {
      throw unsupported(place, "dictionary");
    }
    return new ArrowField(name, readType(table, details, place, column != null), table.uint8(1, 0) != 0);
  }

  private static ArrowType readType(FlatTable field, FlatTable details, String column, boolean inList)
      throws BadInputException {
    int number = field.uint8(2, 0);
    switch (number) {
      case BOOL:
        return ArrowType.of(ArrowType.Id.BOOL);
      case INT:
        return ArrowType.of(readInt(details, column));
      case FLOATING_POINT:
        int precision = details.int16(0, 0);
        if (precision < 0 || precision > 2) {
          throw unsupported(column, "floating point of precision " + precision);
        }
        return ArrowType.of(ArrowType.Id.values()[ArrowType.Id.FLOAT16.ordinal() + precision]);
      default:
        break;
    }
    if (inList) {
      throw unsupported(column, "list of type number " + number);
    }
    switch (number) {
      case UTF8:
        return ArrowType.of(ArrowType.Id.UTF8);
      case LARGE_UTF8:
        return ArrowType.of(ArrowType.Id.LARGE_UTF8);
      case BINARY:
        return ArrowType.of(ArrowType.Id.BINARY);
      case LARGE_BINARY:
        return ArrowType.of(ArrowType.Id.LARGE_BINARY);
      case FIXED_SIZE_LIST:
        FlatTable.Vector children = field.vector(5, 4);
        int size = details.int32(0, 0);
        if (children.size() != 1 || size < 1) {
          throw unsupported(column, "fixed_size_list of " + size + " with " + children.size() + " children");
        }
        ArrowField element = readField(children.table(0), column);
        return ArrowType.fixedSizeList(element.type().id(), size, element.nullable());
      default:
        throw unsupported(column, "number " + number);
    }
  }

  private static ArrowType.Id readInt(FlatTable details, String column) throws BadInputException {
    boolean signed = details.uint8(1, 0) != 0;
    switch (details.int32(0, 0)) {
      case 8:
        return signed ? ArrowType.Id.INT8 : ArrowType.Id.UINT8;
      case 16:
        return signed ? ArrowType.Id.INT16 : ArrowType.Id.UINT16;
      case 32:
        return signed ? ArrowType.Id.INT32 : ArrowType.Id.UINT32;
      case 64:
        return signed ? ArrowType.Id.INT64 : ArrowType.Id.UINT64;
      default:
        throw unsupported(column, "int of " + details.int32(0, 0) + " bits");
    }
  }

  private static BadInputException unsupported(String column, String type) {
    return new BadInputException("column " + Text.quoted(column) + ": type " + type + " is not supported by feeds");
  }
}
