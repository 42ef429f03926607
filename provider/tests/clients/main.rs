//! The client of each provider against a server that speaks, refuses and fails as the
//! vendor does, written by another hand from the same documentation. The servers check
//! each request as the vendor would, so that a conversation without violations is one that
//! the vendor takes; and what comes of every answer and of every failure is what the crate
//! promises.

mod answers;
mod asking;
mod calls;
mod conversations;
mod cuts;
mod descriptions;
mod failures;
mod retries;
