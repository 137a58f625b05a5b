package io.millrace.spark.internal.feed;

import io.millrace.spark.internal.base.Unmapping;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.MappedByteBuffer;
import java.nio.channels.FileChannel;
import java.nio.charset.StandardCharsets;
import java.nio.file.AccessDeniedException;
import java.nio.file.FileSystemException;
import java.nio.file.Files;
import java.nio.file.NoSuchFileException;
import java.nio.file.Path;
import java.nio.file.Paths;
import java.nio.file.StandardOpenOption;
import java.util.ArrayList;
import java.util.List;

/**
 * Memory that a node shares with this feeder (docs/feed_protocol.md, section 10), mapped as a whole.
 *
 * <p>The connection that it came over and every session that uses it hold it; it is unmapped with the last of
 * these. Who holds it may write to it in any thread.
 */
final class MappedSegment {
  /** The largest body for which there is room: it lies in one mapping, wherever it begins. */
  static final long MAX_BODY_BYTES = (1L << 30) - (1 << 16);

  private static final long HEADER_BYTES = 4096;
  private static final int ID_BYTES = 32;
  private static final long MAX_BYTES = 1L << 40;
  // Mappings have at most 2 GiB. One begins at each multiple of this, and overlaps the next.
  private static final int STEP_BITS = 30;
  private static final long MAPPING_BYTES = Integer.MAX_VALUE & -HEADER_BYTES;

  private final long bytes;
  private final List<MappedByteBuffer> mappings;
  private int holders = 1; // guarded by this

  private MappedSegment(long bytes, List<MappedByteBuffer> mappings) {
    this.bytes = bytes;
    this.mappings = mappings;
  }

  /** Opens what a node has named; the caller holds it. Its exception says in one line why it cannot be used. */
  static MappedSegment open(SegmentName name) throws IOException {
    if (name.pid < 1 || name.bytes <= HEADER_BYTES || name.bytes > MAX_BYTES || name.bytes % HEADER_BYTES != 0) {
      throw new IOException("the name of a segment that cannot be");
    }
    MappedSegment segment = new MappedSegment(name.bytes, new ArrayList<>());
    try {
      segment.map(name);
    } catch (IOException | RuntimeException e) {
      segment.release();
      throw e;
    }
    return segment;
  }

  private void map(SegmentName name) throws IOException {
    try (FileChannel file = openFile(Paths.get(name.path()))) {
      if (file.size() != bytes) {
        throw new IOException(
            name.path() + " has " + file.size() + " bytes, the node's segment " + bytes
                + ": the node runs in another PID namespace");
      }
      for (long at = 0; at < bytes; at += 1L << STEP_BITS) {
        mappings.add(mapPart(file, at, Math.min(bytes - at, MAPPING_BYTES), name));
      }
    } catch (FileSystemException e) {
      throw new IOException(name.path() + " " + why(e), e);
    }
    byte[] id = new byte[ID_BYTES];
    mappings.get(0).duplicate().get(id);
    if (!new String(id, StandardCharsets.ISO_8859_1).equals(name.id)) {
      throw new IOException(
          name.path() + " is not the node's segment: the node runs in another PID namespace");
    }
  }

  private static MappedByteBuffer mapPart(FileChannel file, long at, long length, SegmentName name)
      throws IOException {
    try {
      return file.map(FileChannel.MapMode.READ_WRITE, at, length);
    } catch (IOException e) {
      throw new IOException(
          name.path() + ", " + name.bytes + " bytes, cannot be mapped (" + e.getMessage()
              + "): the address space of this JVM is limited; see ulimit -v, or lower budgetBytes", e);
    }
  }

  private static String why(FileSystemException e) {
    if (e instanceof NoSuchFileException) {
      return "is not there: the node runs in another PID namespace, or has ended";
    }
    if (e instanceof AccessDeniedException) {
      return "may not be opened: the node runs as another user";
    }
    return "cannot be opened: " + (e.getReason() != null ? e.getReason() : e.getClass().getSimpleName());
  }

  private static FileChannel openFile(Path path) throws IOException {
    // Before it is opened, which may do something where it is a device.
    if (!Files.readSymbolicLink(path).toString().startsWith("/memfd:millrace-feed")) {
      throw new IOException(path + " is no node's segment: the node runs in another PID namespace");
    }
    return FileChannel.open(path, StandardOpenOption.READ, StandardOpenOption.WRITE);
  }

  synchronized void hold() {
    if (holders == 0) {
      throw new IllegalStateException("the segment is unmapped");
    }
    holders++;
  }

  synchronized void release() {
    holders--;
    if (holders == 0) {
      mappings.forEach(Unmapping::unmap);
    }
  }

  /** Whether a room that the node has told of lies in it. */
  boolean contains(Room room) {
    return room.offset >= HEADER_BYTES
        && room.offset % Room.ALIGNMENT == 0
        && room.length > 0
        && room.length % Room.ALIGNMENT == 0
        && room.offset <= bytes
        && room.length <= bytes - room.offset;
  }

  /** The bytes of a room that is in it, at most {@link #MAX_BODY_BYTES}. */
  ByteBuffer bytes(Room room) {
    int mapping = (int) (room.offset >>> STEP_BITS);
    int from = (int) (room.offset - ((long) mapping << STEP_BITS));
    ByteBuffer bytes = mappings.get(mapping).duplicate();
    bytes.limit(from + (int) room.length);
    bytes.position(from);
    return bytes.slice().order(ByteOrder.LITTLE_ENDIAN);
  }
}
