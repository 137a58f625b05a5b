package io.millrace.spark.internal.feed;

import static org.junit.Assert.assertArrayEquals;
import static org.junit.Assert.assertEquals;
import static org.junit.Assert.assertNotNull;
import static org.junit.Assert.assertThrows;
import static org.junit.Assert.assertTrue;

import io.millrace.spark.StatusCode;
import io.millrace.spark.internal.arrow.ArrowField;
import io.millrace.spark.internal.arrow.ArrowSchema;
import io.millrace.spark.internal.arrow.BatchDecoder;
import io.millrace.spark.internal.arrow.ColumnView;
import io.millrace.spark.internal.arrow.SchemaMessage;
import io.millrace.spark.internal.base.BadInputException;
import io.millrace.spark.internal.base.Json;
import io.millrace.spark.internal.base.JsonObject;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Paths;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.junit.Before;
import org.junit.Test;

/** testing/golden/feed_frames.json, which every implementation of the protocol reads. */
public final class GoldenFramesTest {
  private JsonObject file;
  private final Map<String, ArrowSchema> schemas = new HashMap<>();

  private static final class Golden {
    final String name;
    final boolean toNode;
    final String schema;
    final List<ByteBuffer> parts = new ArrayList<>();

    Golden(JsonObject entry) throws BadInputException {
      name = entry.string("name");
      toNode = entry.string("receiver").equals("node");
      schema = entry.stringOrEmpty("schema");
      for (Object part : entry.list("parts")) {
        parts.add(ByteBuffer.wrap(bytes((String) part)));
      }
    }

    ByteBuffer metadata() {
      return parts.size() > 1 ? parts.get(1).duplicate() : ByteBuffer.allocate(0);
    }
  }

  static byte[] bytes(String hex) {
    byte[] bytes = new byte[hex.length() / 2];
    for (int i = 0; i < bytes.length; i++) {
      bytes[i] = (byte) Integer.parseInt(hex.substring(2 * i, 2 * i + 2), 16);
    }
    return bytes;
  }

  @Before
  public void read() throws Exception {
    byte[] text = Files.readAllBytes(Paths.get(System.getProperty("feed_frames")));
    file = Json.parseObject(new String(text, StandardCharsets.UTF_8), 16);
    for (Object entry : file.list("frames")) {
      Golden golden = new Golden((JsonObject) entry);
      if (golden.name.startsWith("schema_")) {
        schemas.put(golden.name.substring("schema_".length()), SchemaMessage.decode(golden.metadata()));
      }
    }
  }

  @Test
  public void loginsAreThoseOfTheFile() throws Exception {
    for (Object entry : file.list("logins")) {
      JsonObject login = (JsonObject) entry;
      String key = login.string("key");
      String feeder = login.string("feeder");
      assertEquals(login.string("feeder_password"), Logins.feederPassword(key, feeder, login.integer("count")));
      assertEquals(
          login.string("node_password"),
          Logins.nodePassword(key, login.string("challenge"), feeder, login.string("node")));
    }
  }

  /** Decodes everything that the frame says; returns the metadata encoded again. */
  private byte[] recode(Golden golden, FrameHeader header) throws BadInputException {
    ByteBuffer metadata = golden.metadata();
    switch (header.type) {
      case OPEN:
        OpenFrame open = OpenFrame.decode(metadata);
        return golden.name.equals("open_unknown_members") ? bytes(metadata) : open.encode();
      case ABORT:
      case ERROR:
        Messages error = Messages.decodeError(metadata);
        return Messages.encodeError(error.code, error.message);
      case TERMINATED:
        Messages terminated = Messages.decodeTerminated(metadata);
        return Messages.encodeTerminated(terminated.message, terminated.row);
      case END_PARTITION:
      case BLOCKED:
      case RESULT_CREDIT:
      case REVOKE:
      case RECEIVED:
      case ACK:
      case REVOKED:
        return Counts.encode(Counts.decode(metadata).first);
      case MAPPED:
        return Messages.encodeMapped(Messages.decodeMapped(metadata));
      case SEGMENT:
        return SegmentName.decode(metadata).encode();
      case PLACED:
      case PLACED_RESULT:
        Room body = PlacedPrefix.decode(metadata);
        ByteBuffer rest = metadata.duplicate();
        rest.position(PlacedPrefix.BYTES);
        byte[] placed = BatchPrefix.decode(rest.slice()).encode(bytes(message(rest.slice())));
        return PlacedPrefix.encode(body, placed);
      case CREDIT:
      case DONE:
      case WAIT:
      case ROOM:
        Counts counts = Counts.decode(metadata);
        return Counts.encode(counts.first, counts.second);
      case BATCH:
      case RESULT:
        BatchPrefix prefix = BatchPrefix.decode(metadata);
        ByteBuffer message = message(metadata);
        ArrowSchema schema = schemas.get(golden.schema);
        new BatchDecoder(schema).decode(message, prefix.rows, golden.parts.subList(2, golden.parts.size()));
        return prefix.encode(bytes(message));
      default:
        // There are many forms of one schema; ours need not be the golden one.
        ArrowSchema decoded = SchemaMessage.decode(metadata);
        assertEquals(decoded, SchemaMessage.decode(ByteBuffer.wrap(SchemaMessage.encode(decoded))));
        return bytes(metadata);
    }
  }

  private static ByteBuffer message(ByteBuffer metadata) {
    ByteBuffer message = metadata.duplicate();
    message.position(BatchPrefix.BYTES);
    return message.slice();
  }

  private static byte[] bytes(ByteBuffer buffer) {
    byte[] bytes = new byte[buffer.remaining()];
    buffer.duplicate().get(bytes);
    return bytes;
  }

  private FrameHeader check(Golden golden) throws BadInputException {
    FrameHeader header = FrameHeader.decode(golden.parts.get(0));
    header.checkParts(golden.parts.size(), golden.metadata().remaining());
    if (header.type == null) {
      if (!header.optional()) {
        throw new BadInputException("unknown");
      }
      return header;
    }
    if (golden.toNode ? !header.type.toNode() : !header.type.toFeeder()) {
      throw new BadInputException("direction");
    }
    return header;
  }

  @Test
  public void everyFrameDecodesAndEncodesToTheSameBytes() throws BadInputException {
    int frames = 0;
    for (Object entry : file.list("frames")) {
      Golden golden = new Golden((JsonObject) entry);
      FrameHeader header = check(golden);
      JsonObject said = ((JsonObject) entry).object("header");
      assertEquals(golden.name, said.integer("type"), header.typeNumber);
      assertEquals(golden.name, said.string("session"), String.format("%016x", header.session));
      assertEquals(golden.name, said.integer("seq"), header.seq);
      if (header.type == null) {
        continue;
      }
      byte[] metadata = recode(golden, header);
      assertArrayEquals(golden.name, bytes(golden.metadata()), metadata);
      assertEquals(golden.name, said.integer("flags"), header.flags);
      if (header.optional()) {
        continue; // this end sends none
      }
      FrameHeader again = new FrameHeader(header.type, header.session, header.seq, metadata.length);
      assertArrayEquals(golden.name, golden.parts.get(0).array(), again.encode());
      frames++;
    }
    assertTrue(frames >= 45);
  }

  @Test
  public void everyMalformedFrameIsRefused() throws BadInputException {
    for (Object entry : file.list("malformed")) {
      Golden golden = new Golden((JsonObject) entry);
      StatusCode code = null;
      try {
        FrameHeader header = check(golden);
        recode(golden, header);
      } catch (BadInputException e) {
        code = e.code();
      }
      boolean foreign = ((JsonObject) entry).string("outcome").equals("unimplemented");
      assertEquals(golden.name, foreign ? StatusCode.UNIMPLEMENTED : StatusCode.INVALID_ARGUMENT, code);
    }
  }

  @Test
  public void batchesHoldTheValuesThatTheFileSays() throws BadInputException {
    int batches = 0;
    for (Object entry : file.list("frames")) {
      Golden golden = new Golden((JsonObject) entry);
      ArrowSchema schema = schemas.get(golden.schema);
      if (schema == null) {
        continue;
      }
      BatchPrefix prefix = BatchPrefix.decode(golden.metadata());
      List<ColumnView> columns =
          new BatchDecoder(schema)
              .decode(message(golden.metadata()), prefix.rows, golden.parts.subList(2, golden.parts.size()));
      JsonObject said = ((JsonObject) entry).object("message").object("columns");
      for (int i = 0; i < columns.size(); i++) {
        ArrowField field = schema.fields().get(i);
        List<Object> values = said.list(field.name());
        assertEquals(prefix.rows, values.size());
        for (int row = 0; row < prefix.rows; row++) {
          checkValue(golden.name + "." + field.name(), columns.get(i), row, values.get(row));
        }
      }
      batches++;
    }
    assertTrue(batches >= 14);
  }

  private static void checkValue(String place, ColumnView column, int row, Object said) {
    assertEquals(place, said == null, column.isNull(row));
    if (said == null) {
      return;
    }
    switch (column.type().id()) {
      case BOOL:
        assertEquals(place, said, column.getBoolean(row));
        break;
      case FLOAT32:
        assertEquals(place, ((Number) said).floatValue(), column.getFloat(row), 0);
        break;
      case FLOAT64:
        assertEquals(place, ((Number) said).doubleValue(), column.getDouble(row), 0);
        break;
      case UTF8:
      case LARGE_UTF8:
        assertEquals(place, said, column.getString(row));
        break;
      case BINARY:
      case LARGE_BINARY:
        assertArrayEquals(place, bytes((String) said), column.getBytes(row));
        break;
      case FLOAT16:
        break;
      case LIST:
      case LARGE_LIST:
      case FIXED_SIZE_LIST:
        List<?> elements = (List<?>) said;
        int start = column.listStart(row);
        assertEquals(place, elements.size(), column.listEnd(row) - start);
        for (int i = 0; i < elements.size(); i++) {
          checkValue(place, column.child(), start + i, elements.get(i));
        }
        break;
      case STRUCT:
        List<ArrowField> fields = column.type().children();
        for (int i = 0; i < fields.size(); i++) {
          checkValue(place, column.child(i), row, ((JsonObject) said).members().get(fields.get(i).name()));
        }
        break;
      default:
        assertEquals(place, said, column.getInteger(row));
    }
  }

  @Test
  public void aForeignHeaderStillNamesItsSession() throws BadInputException {
    byte[] header = new FrameHeader(FrameType.ACK, 0x1122334455667788L, 5, 8).encode();
    header[4] = 9;
    BadInputException e =
        assertThrows(BadInputException.class, () -> FrameHeader.decode(ByteBuffer.wrap(header)));
    assertEquals(StatusCode.UNIMPLEMENTED, e.code());
    FrameHeader foreign = FrameHeader.decodeForeign(ByteBuffer.wrap(header));
    assertNotNull(foreign);
    assertEquals(0x1122334455667788L, foreign.session);
  }
}
