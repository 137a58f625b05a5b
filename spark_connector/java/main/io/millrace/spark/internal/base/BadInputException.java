package io.millrace.spark.internal.base;

import io.millrace.spark.StatusCode;

/** Bytes of a peer that break the rules; the message is for people. */
public final class BadInputException extends Exception {
  private static final long serialVersionUID = 1L;

  private final StatusCode code;

  public BadInputException(String message) {
    this(StatusCode.INVALID_ARGUMENT, message);
  }

  public BadInputException(StatusCode code, String message) {
    super(message);
    this.code = code;
  }

  /** INVALID_ARGUMENT, or UNIMPLEMENTED for what a newer peer may say. */
  public StatusCode code() {
    return code;
  }
}
