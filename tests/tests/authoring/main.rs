//! Tools that people write, test and build.

mod projects;
mod writing_tools;
