//! The client of each provider, tested with a server that behaves as the vendor does and was
//! written independently from the same documentation. The servers check each request as the vendor
//! would. So a vendor accepts a conversation without violations.

mod answers;
mod asking;
mod calls;
mod conversations;
mod descriptions;
mod failures;
mod retries;
