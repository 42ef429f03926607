//! OCI manifests and indexes, as a registry sends them.

use std::pin::pin;
use std::task::{Context, Poll, Waker};

use bytes::Bytes;
use ikigai_packages::oci::{ContentSource, Descriptor, OciError, referrers, resolve};
use ikigai_packages::reference::Pointer;
use ikigai_protocol::Digest;

/// A registry that answers every question with the same bytes.
struct Echo(Bytes);

impl ContentSource for Echo {
    fn what(&self, pointer: &Pointer) -> String {
        format!("`{pointer}`")
    }

    async fn manifest(&self, _: &Pointer) -> Result<(Digest, Bytes), OciError> {
        Ok((Digest::from_bytes(&self.0), self.0.clone()))
    }

    async fn small_blob(&self, _: &Descriptor, _: usize, _: &str) -> Result<Bytes, OciError> {
        Ok(self.0.clone())
    }

    async fn tags(&self) -> Result<Vec<String>, OciError> {
        Ok(Vec::new())
    }

    async fn listed_referrers(&self, _: Digest) -> Result<Vec<Descriptor>, OciError> {
        Ok(vec![Descriptor::from_bytes("application/json", &self.0)])
    }
}

/// Checks that an answer is one tool whose manifest has the digest of the bytes, or is refused in
/// one line.
pub(crate) fn run(data: &[u8]) {
    let echo = Echo(Bytes::copy_from_slice(data));
    let digest = Digest::from_bytes(data);
    match now(resolve(&echo, &Pointer::Digest(digest))) {
        Ok(artifact) => {
            assert_eq!((artifact.manifest, artifact.manifest_size), (digest, data.len() as u64));
            let title = artifact.title.unwrap_or_default();
            assert!(!title.contains(char::is_control), "{title:?}");
        }
        Err(error) => check(&error),
    }
    if let Err(error) = now(referrers(&echo, digest)) {
        check(&error);
    }
}

fn check(error: &OciError) {
    let text = error.to_string();
    assert!(!text.contains(char::is_control), "{text:?}");
}

/// Returns the result of a future that waits for nothing.
fn now<T>(future: impl Future<Output = T>) -> T {
    match pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(value) => value,
        Poll::Pending => unreachable!("every answer is there"),
    }
}
