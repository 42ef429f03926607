//! The refusal of a tool without a signature by a signer in force, if a signature is required.

use super::context::PolicyContext;
use crate::policy::decision::{Denial, PolicyRequest};
use crate::policy::rule::PolicyLayers;
use crate::policy::{Backend, ToolOrigin, signers};

/// Refuses a user tool that needs a signature but does not have a valid one. Tools of the
/// installation are as trusted as the host.
pub(super) fn check(
    layers: &PolicyLayers,
    context: &PolicyContext<'_>,
    request: &PolicyRequest<'_>,
) -> Result<(), Denial> {
    if request.origin == ToolOrigin::System || !signers::is_required(layers) {
        return Ok(());
    }
    let in_force = context.signing.in_force(layers);
    let Some(by) = &in_force.required else { return Ok(()) };
    let admitted = match (request.backend, request.name) {
        (Backend::Mcp, server) => Err(format!(
            "the server `{}` is not used, because the definition of a server cannot be signed",
            server.unwrap_or_default()
        )),
        (_, None) => Err(format!(
            "`{}` is not run, because a program that is named by its path cannot be signed; \
             install it as a tool",
            request.path.display()
        )),
        (_, Some(tool)) => match context.signing.signatures() {
            None => Err(format!("`{tool}` is not run, because this program checks no signature")),
            Some(_) if request.contents.is_empty() => {
                Err(format!("`{tool}` is not run, because its contents are not known"))
            }
            Some(signatures) => signatures.admit(tool, request.contents, &in_force),
        },
    };
    admitted.map_err(|why| Denial::new(format!("{by} requires signed tools: {why}"), by.clone()))
}
