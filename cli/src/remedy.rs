//! What to do about the errors of libraries, in the words of this program: its flags, its commands,
//! its configuration. The libraries know a remedy as a type only.

pub(crate) mod asset;
pub(crate) mod policy;
pub(crate) mod provider;
