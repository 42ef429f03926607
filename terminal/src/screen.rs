//! x
#[derive(Debug)]
pub struct Screen;
#[derive(Debug)]
pub struct Busy;
#[derive(Debug)]
pub struct Ended;
