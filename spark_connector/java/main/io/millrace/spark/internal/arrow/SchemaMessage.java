package io.millrace.spark.internal.arrow;

import io.millrace.spark.internal.base.BadInputException;
import io.millrace.spark.internal.base.Text;
import java.nio.ByteBuffer;
import java.util.ArrayList;
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
  private static final int DATE = 8;
  private static final int TIMESTAMP = 10;
  private static final int LIST = 12;
  private static final int STRUCT = 13;
  private static final int FIXED_SIZE_LIST = 16;
  private static final int LARGE_BINARY = 19;
  private static final int LARGE_UTF8 = 20;
  private static final int LARGE_LIST = 21;

  private static final int DATE_DAY = 0;
  private static final int DATE_MILLISECOND = 1;

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
      case LIST:
        number = LIST;
        break;
      case LARGE_LIST:
        number = LARGE_LIST;
        break;
      case FIXED_SIZE_LIST:
        number = FIXED_SIZE_LIST;
        details.scalar(0, 4, type.listSize());
        break;
      case STRUCT:
        number = STRUCT;
        break;
      case DATE32:
      case DATE64:
        number = DATE;
        details.scalar(0, 2, type.id() == ArrowType.Id.DATE32 ? DATE_DAY : DATE_MILLISECOND);
        break;
      case TIMESTAMP:
        number = TIMESTAMP;
        details.scalar(0, 2, type.unit().ordinal());
        if (!type.zone().isEmpty()) {
          details.string(1, type.zone());
        }
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
    List<FlatWriter.Table> children = new ArrayList<>();
    for (ArrowField child : type.children()) {
      children.add(field(child));
    }
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
    if (columns.size() > MAX_COLUMNS) {
      throw new BadInputException(columns.size() + " columns");
    }
    List<ArrowField> fields = new Reader(message.remaining()).fields(columns, null, 1);
    requireUnique(fields, "two columns");
    return new ArrowSchema(fields);
  }

  /** Reads the fields of one message, which may refer to the same ones again and again: it counts. */
  private static final class Reader {
    // Each field that is there once takes 8 bytes or more, and its name a byte or more for each character.
    private long fieldsLeft;
    private long charactersLeft;

    Reader(int messageBytes) {
      fieldsLeft = messageBytes / 8;
      charactersLeft = messageBytes;
    }

    /** {@code column}: the name of the column that they are in; null for the columns themselves. */
    List<ArrowField> fields(FlatTable.Vector tables, String column, int depth) throws BadInputException {
      if (depth > ArrowType.MAX_DEPTH && tables.size() > 0) {
        throw new BadInputException(
            "column " + Text.quoted(column) + ": types nested more than " + ArrowType.MAX_DEPTH + " deep");
      }
      List<ArrowField> fields = new ArrayList<>();
      for (int i = 0; i < tables.size(); i++) {
        fields.add(field(tables.table(i), column, depth));
      }
      return fields;
    }

    private ArrowField field(FlatTable table, String column, int depth) throws BadInputException {
      String name = table.string(0);
      fieldsLeft--;
      charactersLeft -= name.length();
      if (fieldsLeft < 0 || charactersLeft < 0) {
        throw new BadInputException("malformed flatbuffer: more fields than bytes");
      }
      String place = column == null ? name : column;
      FlatTable details = table.table(3);
      if (details == null) {
        throw new BadInputException("malformed flatbuffer: a field without a type");
      }
      if (table.table(4) != null) {
        throw unsupported(place, "dictionary");
      }
      List<ArrowField> children = fields(table.vector(5, 4), place, depth + 1);
      return new ArrowField(name, readType(table.uint8(2, 0), details, children, place), table.uint8(1, 0) != 0);
    }
  }

  private static void requireUnique(List<ArrowField> fields, String what) throws BadInputException {
    Set<String> names = new HashSet<>();
    for (ArrowField field : fields) {
      if (!names.add(field.name())) {
        throw new BadInputException(what + " have the name " + Text.quoted(field.name()));
      }
    }
  }

  private static ArrowType readType(int number, FlatTable details, List<ArrowField> children, String column)
      throws BadInputException {
    switch (number) {
      case LIST:
      case LARGE_LIST:
      case FIXED_SIZE_LIST:
        if (children.size() != 1) {
          throw unsupported(column, "list with " + children.size() + " children");
        }
        return readList(number, details, children.get(0), column);
      case STRUCT:
        if (children.isEmpty()) {
          throw unsupported(column, "struct without fields");
        }
        requireUnique(children, "column " + Text.quoted(column) + ": two fields of a struct");
        return ArrowType.struct(children);
      default:
        break;
    }
    if (!children.isEmpty()) {
      throw unsupported(column, "number " + number + " with " + children.size() + " children");
    }
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
      case DATE:
        int date = details.int16(0, DATE_MILLISECOND);
        if (date != DATE_DAY && date != DATE_MILLISECOND) {
          throw unsupported(column, "date of unit " + date);
        }
        return ArrowType.of(date == DATE_DAY ? ArrowType.Id.DATE32 : ArrowType.Id.DATE64);
      case TIMESTAMP:
        int unit = details.int16(0, 0);
        if (unit < 0 || unit >= ArrowType.Unit.values().length) {
          throw unsupported(column, "timestamp of unit " + unit);
        }
        return ArrowType.timestamp(ArrowType.Unit.values()[unit], details.string(1));
      case UTF8:
        return ArrowType.of(ArrowType.Id.UTF8);
      case LARGE_UTF8:
        return ArrowType.of(ArrowType.Id.LARGE_UTF8);
      case BINARY:
        return ArrowType.of(ArrowType.Id.BINARY);
      case LARGE_BINARY:
        return ArrowType.of(ArrowType.Id.LARGE_BINARY);
      default:
        throw unsupported(column, "number " + number);
    }
  }

  private static ArrowType readList(int number, FlatTable details, ArrowField element, String column)
      throws BadInputException {
    if (number == LIST) {
      return ArrowType.list(element);
    }
    if (number == LARGE_LIST) {
      return ArrowType.largeList(element);
    }
    int size = details.int32(0, 0);
    try {
      return ArrowType.fixedSizeList(element, size);
    } catch (IllegalArgumentException e) {
      throw unsupported(column, e.getMessage());
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
