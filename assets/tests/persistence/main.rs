//! Stores in files and databases, which outlive a process and are shared by several.

mod atomicity;
mod opening;
mod pages;
mod sessions;
