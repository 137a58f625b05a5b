package io.millrace.spark;

/** What kind of error a {@link MillraceException} is: gRPC's status codes, with their meanings. */
public enum StatusCode {
  CANCELLED,
  UNKNOWN,
  INVALID_ARGUMENT,
  DEADLINE_EXCEEDED,
  NOT_FOUND,
  ALREADY_EXISTS,
  PERMISSION_DENIED,
  RESOURCE_EXHAUSTED,
  FAILED_PRECONDITION,
  ABORTED,
  OUT_OF_RANGE,
  UNIMPLEMENTED,
  INTERNAL,
  UNAVAILABLE,
  DATA_LOSS,
  UNAUTHENTICATED;

  /** The code of that name; {@link #UNKNOWN} for any other text, "OK" included. */
  public static StatusCode fromName(String name) {
    for (StatusCode code : values()) {
      if (code.name().equals(name)) {
        return code;
      }
    }
    return UNKNOWN;
  }
}
