//! Granting leases: the one a session asks for, and those that it will ask for next.
//!
//! | file | idea |
//! |---|---|
//! | `acquiring` | one lease: granted, waited for, or taken from its holder |
//! | `holding` | policy: how long a holder keeps what others want, too |
//! | `first` | what a session is granted as it attaches |
//! | `ahead` | policy: which inodes are granted beside the one asked for |
//! | `around` | grants those, and sends what they bring |
//! | `packed` | inodes as they are sent, kept from one question to the next |
//! | `packing` | puts parcels together from those and from the last commit |
//! | `giving_back` | leases that sessions give back |
//!
//! No file here decides which leases exclude each other: `leases` does.

mod acquiring;
mod ahead;
mod around;
mod first;
mod giving_back;
mod holding;
mod packed;
mod packing;

pub(crate) use ahead::Ahead;
pub(crate) use packed::Packed;
