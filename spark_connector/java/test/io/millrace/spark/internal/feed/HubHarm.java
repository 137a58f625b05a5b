package io.millrace.spark.internal.feed;

import io.millrace.spark.internal.base.Eventually;
import java.net.Socket;
import java.net.URI;
import org.zeromq.ZMQ;
import zmq.SocketBase;

/** What may happen to a hub, brought about by a test. */
final class HubHarm {
  private HubHarm() {}

  /** An error on JeroMQ's I/O thread, as an allocation that fails is one; returns once the hub knows. */
  static void endIoThread(FeedHub hub) throws Exception {
    ReplySockets sockets = hub.repliesForTest();
    SocketBase reply = sockets.replies().get(0).base();
    reply.setEventHook(null, 0);
    reply.setEventHook(
        event -> {
          throw new OutOfMemoryError("a test's");
        },
        ZMQ.EVENT_ACCEPTED);
    URI endpoint = URI.create(sockets.plainEndpoint());
    new Socket(endpoint.getHost(), endpoint.getPort()).close();
    Eventually.await("the hub's end", () -> !hub.isAlive());
  }
}
