//! The client of each provider against a server that behaves as the vendor does, written
//! independently from the same documentation. The servers check each request as the vendor would,
//! so a conversation without violations is one that the vendor accepts.

mod answers;
mod asking;
mod calls;
mod conversations;
mod cuts;
mod descriptions;
mod failures;
mod retries;
