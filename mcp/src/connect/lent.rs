//! A transport that is returned when a handshake fails.

use rmcp::service::{RoleClient, RxJsonRpcMessage, TxJsonRpcMessage};
use rmcp::transport::Transport;
use tokio::sync::oneshot;

/// A transport on loan to the library, which keeps it if a handshake succeeds and drops it
/// otherwise.
pub(super) struct LentTransport<T> {
    /// `Some` until the drop.
    transport: Option<T>,
    /// Receives the transport from the drop. It may be gone by then.
    lender: Option<oneshot::Sender<T>>,
}

impl<T> LentTransport<T> {
    /// Returns the transport on loan, and the receiver to which it returns.
    pub(super) fn new(transport: T) -> (Self, oneshot::Receiver<T>) {
        let (lender, back) = oneshot::channel();
        (Self { transport: Some(transport), lender: Some(lender) }, back)
    }

    fn transport(&mut self) -> &mut T {
        self.transport.as_mut().expect("taken by the drop alone")
    }
}

impl<T> Drop for LentTransport<T> {
    fn drop(&mut self) {
        if let (Some(transport), Some(lender)) = (self.transport.take(), self.lender.take()) {
            // Without a receiver, the transport is dropped here.
            let _ = lender.send(transport);
        }
    }
}

impl<T: Transport<RoleClient>> Transport<RoleClient> for LentTransport<T> {
    type Error = T::Error;

    fn send(
        &mut self,
        message: TxJsonRpcMessage<RoleClient>,
    ) -> impl Future<Output = Result<(), Self::Error>> + Send + 'static {
        self.transport().send(message)
    }

    fn receive(&mut self) -> impl Future<Output = Option<RxJsonRpcMessage<RoleClient>>> + Send {
        self.transport().receive()
    }

    fn close(&mut self) -> impl Future<Output = Result<(), Self::Error>> + Send {
        self.transport().close()
    }
}
