//! A client and handwritten servers: servers that follow the protocol, servers that break it, and
//! servers that attack. Everything runs in memory.

mod calls;
mod handshake;
mod hostile;
mod peer;
mod tools;
