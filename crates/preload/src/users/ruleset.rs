//! A Landlock ruleset that the program has made.

use cuesta_libfs::Layer;

/// A ruleset that the program has made, and not put into force yet.
#[derive(Debug)]
pub struct Ruleset {
    /// A copy of its descriptor, of this library's own: open in the process that made it and in its children. A vfork child's is not
    /// open in its parent, which forgets it.
    pub(crate) copy: i32,
    pub(crate) layer: Layer,
}
