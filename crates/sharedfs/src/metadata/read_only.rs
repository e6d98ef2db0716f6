//! Why a metadata store takes no writes any more.

/// The reason for refusing writes. Everything committed can be read, but for damaged pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReadOnly {
    /// A transaction met damage, and its state in memory is unknown.
    Damage,
    /// A write failed, and how much of it is on the medium is unknown.
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
