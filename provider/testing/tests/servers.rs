//! The requests that the servers refuse, written by hand and sent over plain TCP. These tests do not
//! use ikigai's client, whose own tests show the rest of the servers.

#[path = "servers/exchange.rs"]
mod exchange;
#[path = "servers/refusals.rs"]
mod refusals;
