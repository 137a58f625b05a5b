package io.millrace.spark.internal.rows;

import io.millrace.spark.internal.arrow.ArrowType;
import io.millrace.spark.internal.arrow.ColumnBuilder;
import org.apache.spark.sql.catalyst.expressions.SpecializedGetters;
import org.apache.spark.sql.catalyst.expressions.UnsafeArrayData;
import org.apache.spark.sql.catalyst.util.ArrayData;
import org.apache.spark.unsafe.Platform;

/** Arrays; those of numbers as one piece of memory. */
final class ArrayEncoder extends FieldEncoder {
  private final FieldEncoder element;
  private final int width; // of an element in both forms, 0 if these differ

  ArrayEncoder(ColumnBuilder column, FieldEncoder element) {
    super(column);
    this.element = element;
    width = width(column.child().type().id());
  }

  private static int width(ArrowType.Id id) {
    switch (id) {
      case INT8:
        return 1;
      case INT16:
        return 2;
      case INT32:
      case DATE32:
      case FLOAT32:
        return 4;
      case INT64:
      case TIMESTAMP:
      case FLOAT64:
        return 8;
      default:
        return 0;
    }
  }

  @Override
  void putValue(SpecializedGetters row, int i) {
    ArrayData array = row.getArray(i);
    if (width > 0 && array instanceof UnsafeArrayData) {
      putMemory((UnsafeArrayData) array);
      return;
    }
    int count = array.numElements();
    for (int at = 0; at < count; at++) {
      element.put(array, at);
    }
    column.endList();
  }

  // UnsafeArrayData: u64 count, a bit for each null in words of 64, then the elements (checked for 3.5 to 4.3).
  private void putMemory(UnsafeArrayData array) {
    int count = array.numElements();
    int header = UnsafeArrayData.calculateHeaderPortionInBytes(count);
    Object base = array.getBaseObject();
    long offset = array.getBaseOffset();
    int first = column.child().rows();
    long address = column.putListByAddress(count);
    Platform.copyMemory(base, offset + header, null, address, (long) count * width);
    for (int at = 0; at < count; at += 64) {
      long nulls = Platform.getLong(base, offset + 8 + at / 8);
      while (nulls != 0) {
        column.child().markNull(first + at + Long.numberOfTrailingZeros(nulls));
        nulls &= nulls - 1;
      }
    }
  }
}
