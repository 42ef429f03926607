//! The network of guests, through [`sockets`] and [`http`]. Both check the network access of the
//! call.

pub(super) mod http;
pub(super) mod messages;
pub(super) mod sockets;

#[cfg(test)]
mod tests;
