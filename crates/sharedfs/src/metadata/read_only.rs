//! Why a metadata store takes no writes any more.

/// Why nothing is written any more. What was committed can be read, but for what is damaged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReadOnly {
    /// A transaction met damage, and nobody knows what is left of it in memory.
    Damage,
    /// A write failed, and nobody knows what of it is on the medium.
    Failure,
}

impl std::fmt::Display for ReadOnly {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            ReadOnly::Damage => "the metadata store is damaged (stop it, and run cuesta fsck)",
            ReadOnly::Failure => {
                "a write failed (once the medium takes writes again, stop it and start it anew)"
            }
        })
    }
}
