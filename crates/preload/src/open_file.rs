//! temporary
/// d
#[derive(Debug)]
pub struct Description;
