//! The capabilities of Linux that concern files: they hold regardless of the mode bits.

/// A set of capabilities, as `capget` writes it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Capabilities(u64);

/// A capability that decides something here, by its number in Linux.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Capability {
    /// `CAP_CHOWN`: give files away.
    ChangeOwner = 0,
    /// `CAP_DAC_OVERRIDE`: pass the mode bits.
    OverrideAccess = 1,
    /// `CAP_DAC_READ_SEARCH`: pass them to read files, and to read and search directories.
    ReadAndSearch = 2,
    /// `CAP_FOWNER`: do what only owners may.
    ActAsOwner = 3,
    /// `CAP_FSETID`: keep set-id bits where others lose them.
    KeepSetId = 4,
    /// `CAP_SYS_ADMIN`: see and change `trusted.` and change `security.` attributes.
    Administer = 21,
    /// `CAP_SYS_RESOURCE`: own more than quotas allow, and let others do so.
    PassQuotas = 24,
    /// `CAP_MKNOD`: make devices.
    MakeDevices = 27,
    /// `CAP_SETFCAP`: give program files capabilities.
    SetFileCapabilities = 31,
}

impl Capabilities {
    /// No capability.
    pub const NONE: Capabilities = Capabilities(0);

    /// Every capability, as root has them.
    pub const ALL: Capabilities = Capabilities(u64::MAX);

    /// The set that has a bit for each capability's number.
    #[must_use]
    pub const fn from_bits(bits: u64) -> Capabilities {
        Capabilities(bits)
    }

    /// A bit for each capability in the set.
    #[must_use]
    pub const fn bits(self) -> u64 {
        self.0
    }

    /// The capabilities that are also in `other`.
    #[must_use]
    pub const fn within(self, other: Capabilities) -> Capabilities {
        Capabilities(self.0 & other.0)
    }

    /// Whether `capability` is in the set.
    #[inline]
    #[must_use]
    pub const fn has(self, capability: Capability) -> bool {
        self.0 & (1 << capability as u8) != 0
    }
}
