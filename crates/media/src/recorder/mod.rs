//! Everything that reaches the files of a store, in order, for the crash explorer.
//!
//! With the feature `record`, every store, flush and fence made through this crate is noted while a
//! recorder is installed; without it, the functions here are empty. Addresses are turned into places in
//! files by a table of mappings, so two mappings of one file (the client's and the daemon's) are one region,
//! and code that stores through raw pointers with [`crate::copying::persist`] is seen as well.
//!
//! The model: a store may survive a crash from the moment it is made; it must survive once a [`Event::Flush`]
//! of its lines and then a [`Event::Fence`] of the same thread follow. Making a file is several steps, and each is an
//! event: it appears, empty and under the name of an unfinished one, gets its length, gets its name. A crash may fall
//! between any two. Each step counts as durable from then on: SharedFS syncs files and directories before it goes on.
//!
//! Files in mapped mode are the kernel's, and as durable as the medium they lie on. A call's change of one is done
//! ([`Event::Written`]), page by page; on a disk its bytes are pending until they are synced. A program's store through a mapping is pending like any store, until msync.

#[cfg(feature = "record")]
mod live;
#[cfg(feature = "record")]
mod places;
#[cfg(feature = "record")]
mod reads;
#[cfg(feature = "record")]
pub use live::*;
#[cfg(feature = "record")]
pub use places::RegionKey;
#[cfg(feature = "record")]
pub use reads::*;

#[cfg(not(feature = "record"))]
mod off;
#[cfg(not(feature = "record"))]
pub use off::*;
