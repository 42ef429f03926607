//! The commands of `ikigai`, as people and scripts use them.

mod asset_access;
mod assets;
mod audit;
mod cli;
mod config;
mod consent;
mod discovery;
mod doctor;
mod more_time;
mod overlapping_calls;
mod own_places;
mod pages;
mod policy;
mod policy_layers;
mod relative_paths;
mod script_tool;
#[path = "../components/network/rig.rs"]
#[allow(dead_code, reason = "the rest of it is for calls with a grant")]
mod servers;
mod shipping;
mod unconfined;
