//! The network of guests, by way of [`sockets`] and of [`http`]. Both ask the judge of the call.

pub(super) mod http;
pub(super) mod messages;
pub(super) mod sockets;

#[cfg(test)]
mod tests;
