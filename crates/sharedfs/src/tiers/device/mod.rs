//! Where segments and arenas lie.
//!
//! | file | idea |
//! |---|---|
//! | `part` | a segment or an arena |
//! | `parts` | in files of the tier, or in zones of a character device |
//! | `disk` | arenas of a lower tier on a disk without a file system |
//! | `zones` | which zones of the device are taken |
//! | `region` | what the kernel knows of the persistent memory they lie on |

mod disk;
mod part;
mod parts;
mod region;
mod zones;

pub(crate) use disk::{discard_disk, is_disk, label_disk, label_of_disk};
pub use disk::{is_empty_disk, room_on_disk};
pub use part::Part;
pub use parts::{Parts, medium_of_files, release_device, room_on_device, superblock_on_device};
pub(crate) use parts::{claim_device, region};
pub use region::{Region, namespace_of_device};
