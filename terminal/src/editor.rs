//! x
#[derive(Debug)]
pub struct Editor;
#[derive(Debug)]
pub struct Input;
