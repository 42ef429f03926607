//! The servers over plain TCP, with requests written by hand: their streams, refusals and failures.
//! These tests do not use ikigai's client.

#[path = "servers/exchange.rs"]
mod exchange;
#[path = "servers/faults.rs"]
mod faults;
#[path = "servers/refusals.rs"]
mod refusals;
#[path = "servers/streams.rs"]
mod streams;
