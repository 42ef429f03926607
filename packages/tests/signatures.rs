//! Signatures that other programs made: `ssh-keygen`, `minisign`, and the bundles of
//! sigstore-conformance.

#[path = "signatures/conformance.rs"]
mod conformance;
#[path = "signatures/programs.rs"]
mod programs;
