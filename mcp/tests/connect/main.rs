//! A client and servers written by hand: those that keep to the protocol, those that do not, and
//! those that attack. Everything runs in memory.

mod calls;
mod handshake;
mod hostile;
mod peer;
mod tools;
