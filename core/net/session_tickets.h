// File: core/net/session_tickets.h
//
// TLS 1.3 session tickets, which OpenSSL's servers make two of after each handshake. Agents and
// readers are new processes, so none of ours ever resumes a session: a quarter of a handshake's
// processor time would be spent on what is thrown away. gRPC has no option for it.
//
// Defines: StopSessionTickets().

#ifndef CORE_NET_SESSION_TICKETS_H_
#define CORE_NET_SESSION_TICKETS_H_

namespace millrace {

// From now on no TLS server of this process sends tickets, by OpenSSL's "system_default"
// configuration. A process whose openssl.cnf has such a section keeps it as it is, and its tickets.
// Called before a gRPC server is made. Thread-safe, idempotent; no other thread may make an SSL_CTX
// while the first call runs.
void StopSessionTickets();

}  // namespace millrace

#endif  // CORE_NET_SESSION_TICKETS_H_
