//! The servers over plain TCP, with requests written by hand: what they stream, what they
//! refuse, and how they fail. No client of ikigai's is in it.

#[path = "servers/exchange.rs"]
mod exchange;
#[path = "servers/faults.rs"]
mod faults;
#[path = "servers/refusals.rs"]
mod refusals;
#[path = "servers/streams.rs"]
mod streams;
