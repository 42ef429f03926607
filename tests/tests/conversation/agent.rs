//! Conversations with a model from end to end: the real program against a server that responds as
//! the vendor's does, with tools that really run.

mod asking;
mod assets;
mod calling;
mod compacting;
mod context;
mod continuing;
mod flow;
mod images;
mod keeping;
mod notes;
mod place;
mod refused;
mod remembering;
mod rig;
mod session;
mod stopping;
