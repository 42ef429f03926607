//! Conversations with a model from end to end: the real program against a server that
//! speaks as the vendor does, with tools that really run.

#[path = "agent/asking.rs"]
mod asking;
#[path = "agent/assets.rs"]
mod assets;
#[path = "agent/calling.rs"]
mod calling;
#[path = "agent/compacting.rs"]
mod compacting;
#[path = "agent/context.rs"]
mod context;
#[path = "agent/continuing.rs"]
mod continuing;
#[path = "agent/flow.rs"]
mod flow;
#[path = "agent/images.rs"]
mod images;
#[path = "agent/keeping.rs"]
mod keeping;
#[path = "agent/notes.rs"]
mod notes;
#[path = "agent/refused.rs"]
mod refused;
#[path = "agent/remembering.rs"]
mod remembering;
#[path = "agent/rig.rs"]
mod rig;
#[path = "agent/session.rs"]
mod session;
#[path = "agent/stopping.rs"]
mod stopping;
