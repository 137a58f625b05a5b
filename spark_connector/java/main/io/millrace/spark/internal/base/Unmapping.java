package io.millrace.spark.internal.base;

import java.lang.reflect.Field;
import java.lang.reflect.Method;
import java.nio.ByteBuffer;
import java.nio.MappedByteBuffer;

/** Gives mapped memory back at once. The garbage collector does it too, perhaps hours later. */
public final class Unmapping {
  // Of sun.misc.Unsafe, since Java 9; read by reflection since `javac --release 8` does not show it. null where
  // there is none.
  private static final Object UNSAFE;
  private static final Method INVOKE_CLEANER;

  static {
    Object unsafe = null;
    Method invokeCleaner = null;
    try {
      Class<?> type = Class.forName("sun.misc.Unsafe");
      Field instance = type.getDeclaredField("theUnsafe");
      instance.setAccessible(true);
      unsafe = instance.get(null);
      invokeCleaner = type.getMethod("invokeCleaner", ByteBuffer.class);
    } catch (ReflectiveOperationException e) {
      invokeCleaner = null;
    }
    UNSAFE = unsafe;
    INVOKE_CLEANER = invokeCleaner;
  }

  private Unmapping() {}

  /** {@code buffer} must be what FileChannel.map returned, and nobody may touch it or a view of it any more. */
  public static void unmap(MappedByteBuffer buffer) {
    if (INVOKE_CLEANER == null) {
      return;
    }
    try {
      INVOKE_CLEANER.invoke(UNSAFE, buffer);
    } catch (ReflectiveOperationException e) {
      throw new IllegalStateException("a mapping cannot be given back", e);
    }
  }
}
