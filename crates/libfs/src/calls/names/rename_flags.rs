//! The flags of a rename. This is a leaf; [`crate::calls::names::rename`] renames.

/// Flags of `renameat2`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct RenameFlags {
    /// Fail if the new name exists.
    pub no_replace: bool,
    /// The two names change places.
    pub exchange: bool,
}
