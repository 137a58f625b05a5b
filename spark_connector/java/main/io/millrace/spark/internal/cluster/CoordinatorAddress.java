package io.millrace.spark.internal.cluster;

import java.io.Serializable;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.Objects;

/**
 * Where agents and gateways find their coordinator, and the certificate and token that let them in. A secret:
 * it travels in Spark's serialized tasks and on a child's stdin only, and has no text form. Immutable.
 */
public final class CoordinatorAddress implements Serializable {
  private static final long serialVersionUID = 1L;

  private final String address;
  private final String caPem;
  private final String identityPem;
  private final String token;

  public CoordinatorAddress(String address, String caPem, String identityPem, String token) {
    this.address = Objects.requireNonNull(address);
    this.caPem = Objects.requireNonNull(caPem);
    this.identityPem = Objects.requireNonNull(identityPem);
    this.token = Objects.requireNonNull(token);
  }

  /** "host:port". */
  public String address() {
    return address;
  }

  /** The parameter "coordinator" of docs/control_protocol.md. */
  Map<String, Object> toJson() {
    Map<String, Object> json = new LinkedHashMap<>();
    json.put("address", address);
    json.put("ca_pem", caPem);
    json.put("identity_pem", identityPem);
    json.put("token", token);
    return json;
  }

  @Override
  public String toString() {
    return "coordinator at " + address;
  }
}
